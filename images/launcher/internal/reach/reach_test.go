package reach

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/env/envtest"
)

const addresses = "10.0.0.1,10.0.0.2,10.0.0.3"

func TestDescribesALongListWithinATerminationMessage(t *testing.T) {
	var targets []Target
	for rank := range 1499 {
		for _, port := range []string{"50515", "50516"} { // two workers: each rank is named once
			host := fmt.Sprintf("10.0.%d.%d", rank/250, rank%250)
			targets = append(targets, Target{host: host, port: port, whose: fmt.Sprintf("rank %d", rank)})
		}
	}
	text := unreachedError{targets, slices.Repeat([]error{errors.New("Network is unreachable")}, len(targets))}.Error()
	if !strings.HasSuffix(text, "rank 9 (10.0.0.9: Network is unreachable) and 1489 more") || len(text) >= 1024 {
		t.Errorf("%d characters: %s", len(text), text)
	}
}

func TestAnIPv6AddressLosesItsBrackets(t *testing.T) {
	// ::1 counts as reached whether it refuses or accepts. With brackets it would not be a valid address.
	if err := (Target{host: "[::1]", port: "9"}).connect(time.Second); err != nil {
		t.Error(err)
	}
}

func TestSaysWhyAnAddressIsNotReached(t *testing.T) {
	for want, err := range map[string]error{
		"No route to host":                &net.OpError{Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)},
		"timed out":                       &net.OpError{Err: os.ErrDeadlineExceeded},
		"no such name":                    &net.OpError{Err: &net.DNSError{Err: "no such host", IsNotFound: true}},
		"name lookup failed: i/o timeout": &net.OpError{Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}},
		"something else":                  errors.New("something else"),
	} {
		if got := reasonOf(err).Error(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestArgumentsSelectTheAddresses(t *testing.T) {
	for words, want := range map[string]string{
		"mesh 6000 2":  "10.0.0.1:6000 10.0.0.1:6001 10.0.0.2:6000 10.0.0.2:6001",
		"mesh 6000 1 ": "10.0.0.1:6000 10.0.0.2:6000",
		"star 6000 1":  "10.0.0.1:6000",
		"alone 6000 1": "",
		"mesh 6000 1 tcp://b:7,ipc:///x,tcp://c:8": "b:7 c:8",
		"redis a 6379": "a:6379",
	} {
		t.Run(words, func(t *testing.T) {
			t.Setenv("DI_NODES", addresses)
			t.Setenv("DI_RANK", "2")
			targets, err := parseArguments(strings.Split(words, " "))
			var got []string
			for _, each := range targets {
				got = append(got, each.host+":"+each.port)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestInvalidArgumentsAreRejected(t *testing.T) {
	for name, row := range map[string]struct{ words, rank, nodes, says string }{
		"nothing":       {"", "2", addresses, "usage: reach TOPOLOGY"},
		"too few":       {"mesh 6000", "2", addresses, "usage: reach TOPOLOGY"},
		"too many":      {"mesh 6000 1 tcp://a:1 x", "2", addresses, "usage: reach TOPOLOGY"},
		"no port":       {"mesh first 1", "2", addresses, "'first' is not a valid number"},
		"no such port":  {"mesh 65536 1", "2", addresses, "'65536' is not a valid number"},
		"no workers":    {"mesh 6000 two", "2", addresses, "'two' is not a valid number"},
		"no redis port": {"redis a b", "2", addresses, "'b' is not a valid number"},
		"no rank":       {"mesh 6000 1", "", addresses, "'' is not a valid number"},
		"no list":       {"mesh 6000 1", "2", "", "DI_NODES is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DI_NODES", row.nodes)
			t.Setenv("DI_RANK", row.rank)
			if targets, err := parseArguments(strings.Fields(row.words)); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, %v", targets, err)
			}
		})
	}
}

// server accepts connections on the loopback device, sends each this answer, and counts them.
func server(t *testing.T, answer string) (port string, seen *atomic.Int32) {
	port, socket := boundPort(t)
	return port, serve(t, socket, answer)
}

// serve listens with a socket, and does what server does.
func serve(t *testing.T, socket *os.File, answer string) (seen *atomic.Int32) {
	if err := syscall.Listen(int(socket.Fd()), 16); err != nil {
		t.Fatal(err)
	}
	listener, err := net.FileListener(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	seen = &atomic.Int32{}
	go func() {
		for {
			link, err := listener.Accept()
			if err != nil {
				return
			}
			seen.Add(1)
			if answer != "" {
				link.Read(make([]byte, 20))
				link.Write([]byte(answer))
			}
			link.Close()
		}
	}()
	return seen
}

// closedPort returns a port of the loopback device on which nothing listens. A socket keeps the port until the test ends, so
// that no other program gets it.
func closedPort(t *testing.T) string {
	port, _ := boundPort(t)
	return port
}

// boundPort returns a port of the loopback device, and its socket, which does not listen yet.
func boundPort(t *testing.T) (port string, socket *os.File) {
	made, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket = os.NewFile(uintptr(made), "socket")
	t.Cleanup(func() { socket.Close() })
	if err := syscall.Bind(made, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(made)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(address.(*syscall.SockaddrInet4).Port), socket
}

func TestEachTargetIsTriedOnce(t *testing.T) {
	envtest.New(t)
	one, seenByOne := server(t, "")
	two, seenByTwo := server(t, "")
	if err := Check(AttachedTargets("tcp://127.0.0.1:" + one + ", tcp://127.0.0.1:" + two)); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(10 * time.Second); seenByOne.Load()*seenByTwo.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if seenByOne.Load() != 1 || seenByTwo.Load() != 1 {
		t.Errorf("%d and %d connections", seenByOne.Load(), seenByTwo.Load())
	}
}

func TestAPeerThatRefusesIsReached(t *testing.T) {
	p := envtest.New(t)
	if err := Check(AttachedTargets("tcp://127.0.0.1:" + closedPort(t))); err != nil || p.Said() != "" {
		t.Errorf("%v, said %q", err, p.Said())
	}
}

func TestARedisServerMustAnswerPing(t *testing.T) {
	for answer, want := range map[string]string{
		"+PONG\r\n":                            "",
		"-NOAUTH Authentication required.\r\n": "it requires a password, which DI-engine cannot send",
		"HTTP/1.1 400 Bad Request\r\n":         "not a Redis server: it answered 'HTTP/1.1 400 Bad Request'",
		"":                                     "not a Redis server: it answered ''",
		"closed":                               "Connection refused",
	} {
		t.Run(answer, func(t *testing.T) {
			port := closedPort(t)
			if answer != "closed" {
				port, _ = server(t, answer)
			}
			err := RedisTargets("127.0.0.1", port)[0].connect(time.Minute)
			// A server that closes at once may reset the connection before the answer is read.
			if (err == nil) != (want == "") || err != nil && err.Error() != want && answer != "" {
				t.Error(err)
			}
		})
	}
}

func TestAnUnreachableRedisServerIsNamedWithTheReason(t *testing.T) {
	envtest.New(t)
	envtest.Sets(t, map[string]string{"DI_RANK": "0", "DIJOB_REACH_SECONDS": "0.1"})
	want := "rank 0 cannot reach Redis (127.0.0.1: Connection refused). Gave up after 0.1 s, because the job would hang" +
		" otherwise. Check the Redis server (spec.messageQueue)"
	if err := Check(RedisTargets("127.0.0.1", closedPort(t))); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// firstLine calls a function when the log gets its first line.
type firstLine struct {
	log  io.Writer
	call func()
	once sync.Once
}

func (l *firstLine) Write(text []byte) (int, error) {
	l.once.Do(l.call)
	return l.log.Write(text)
}

func TestATargetThatAppearsWithinTheLimitIsWaitedFor(t *testing.T) {
	p := envtest.New(t)
	port, socket := boundPort(t)
	env.LogTo = &firstLine{log: env.LogTo, call: func() { serve(t, socket, "+PONG\r\n") }}
	if err := Check(RedisTargets("127.0.0.1", port)); err != nil {
		t.Error(err)
	}
	if want := "dijob: cannot reach Redis (127.0.0.1: Connection refused); trying for up to 60 s\n"; p.Said() != want {
		t.Errorf("said %q", p.Said())
	}
}

func TestTheExitCodeSaysWhetherTheCheckItselfFailed(t *testing.T) {
	for name, row := range map[string]struct {
		words string
		code  int
		says  string
	}{
		"reached":     {"star PORT 1", 0, ""},
		"no peers":    {"alone PORT 1", 0, ""},
		"unreachable": {"redis 127.0.0.1 PORT", 3, "rank 2 cannot reach Redis (127.0.0.1: Connection refused). Gave up after 0.1 s"},
		"usage":       {"mesh PORT", 2, "reach: usage: reach TOPOLOGY PORT WORKERS"},
	} {
		t.Run(name, func(t *testing.T) {
			p := envtest.New(t)
			envtest.Sets(t, map[string]string{"DI_RANK": "2", "DI_NODES": "127.0.0.1,127.0.0.2,127.0.0.3", "DIJOB_REACH_SECONDS": "0.1"})
			p.Writes(t, "termination-log", "")
			code := Run(strings.Fields(strings.Replace(row.words, "PORT", closedPort(t), 1)))
			if code != row.code || row.says != "" && !strings.Contains(p.Said(), "dijob: "+row.says) {
				t.Errorf("%d, said %q", code, p.Said())
			}
			if last := p.SaidLast(); (last != "") != (code == unreachableExit) || !strings.HasPrefix(last, row.says) && last != "" {
				t.Errorf("termination message %q", last)
			}
		})
	}
}

func TestTheTerminationMessageIsNotCreatedOutsideAContainer(t *testing.T) {
	envtest.New(t)
	Report(errors.New("x"))
	if _, err := os.Stat(os.Getenv("DIJOB_TERMINATION_LOG")); err == nil {
		t.Error("it exists")
	}
}

func TestANameThatDoesNotExistIsNotReached(t *testing.T) {
	if err := (Target{host: "no-such-host.invalid", port: "9"}).connect(time.Second); err == nil {
		t.Error("reached")
	}
}
