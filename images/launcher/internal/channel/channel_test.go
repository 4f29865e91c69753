package channel

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"dijob-launcher/internal/env/envtest"
	"dijob-launcher/internal/progress"
)

const key = "a-key"

// operator is the other end of a connection.
type operator struct {
	t      *testing.T
	server net.Listener
	link   net.Conn
	reads  *bufio.Reader
}

// open returns an operator and a channel that connects to it.
func open(t *testing.T) (*operator, *Channel) {
	t.Helper()
	envtest.New(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	envtest.Sets(t, map[string]string{
		"DIJOB_CHANNEL": server.Addr().String() + " job-learner-0 " + key, "DI_JOB_NAMESPACE": "ns", "DI_JOB_NAME": "job", "DI_JOB_ID": "uid",
		"DI_RANK": "3", "DI_POD_IP": "10.0.0.4",
	})
	o := &operator{t: t, server: server}
	c := Open()
	// Otherwise it could connect to the operator of a later test that has the same port.
	t.Cleanup(c.Close)
	o.accept()
	return o, c
}

// pipes is a network without a kernel, so that the tests that measure time can use the simulated clock.
type pipes struct {
	net.Listener
	links chan net.Conn
}

func (p *pipes) Accept() (net.Conn, error) { return <-p.links, nil }

// simulated returns an operator and a channel that are connected by pipes. It must be called with the simulated clock, and the
// channel must be closed in the end.
func simulated(t *testing.T, config Config) (*operator, *Channel) {
	t.Helper()
	network, ended := &pipes{links: make(chan net.Conn)}, make(chan struct{})
	config.Key, config.State = key, Waiting
	config.Keep = func(map[string]string, []byte) {}
	config.Dial = func() (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case network.links <- far:
			return near, nil
		case <-ended:
			return nil, net.ErrClosed
		}
	}
	if config.Refused == nil {
		config.Refused = func(error) {}
	}
	if config.Lost == nil {
		config.Lost = func(error) {}
	}
	o, c := &operator{t: t, server: network}, New(config)
	t.Cleanup(func() {
		c.Close()
		close(ended)
	})
	o.accept()
	return o, c
}

func (o *operator) accept() {
	o.t.Helper()
	link, err := o.server.Accept()
	if err != nil {
		o.t.Fatal(err)
	}
	link.SetDeadline(time.Now().Add(10 * time.Second))
	o.link, o.reads = link, bufio.NewReader(link)
}

// receives returns the next report, whose signature must be genuine.
func (o *operator) receives() (found message) {
	o.t.Helper()
	request, err := http.ReadRequest(o.reads)
	if err != nil {
		o.t.Fatal(err)
	}
	body, _ := io.ReadAll(request.Body)
	if got := request.Header.Get("Authorization"); got != "dijob "+(&Channel{config: Config{Key: key}}).sign(body) {
		o.t.Fatalf("the signature is %q", got)
	}
	if err := json.Unmarshal(body, &found); err != nil {
		o.t.Fatal(err)
	}
	return found
}

// answers sends a response that is signed with this key for this nonce.
func (o *operator) answers(key, nonce, body string) {
	made := (&Channel{config: Config{Key: key}}).sign([]byte(nonce), []byte(body))
	fmt.Fprintf(o.link, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nAuthorization: dijob %s\r\n\r\n%s", len(body), made, body)
}

func TestWithoutAnAddressThereIsNoChannel(t *testing.T) {
	envtest.New(t)
	c := Open()
	c.Report(Started)
	if c != nil || c.Said() != nil || c.Changed() != nil {
		t.Errorf("%+v", c)
	}
}

func TestTheProgramDoesNotInheritTheKey(t *testing.T) {
	open(t)
	if got, found := os.LookupEnv("DIJOB_CHANNEL"); found {
		t.Errorf("DIJOB_CHANNEL=%q", got)
	}
}

func TestTheFirstReportSaysWhichPodThisIs(t *testing.T) {
	o, _ := open(t)
	got := o.receives()
	if got.Job != "ns/job/uid" || got.Pod != "job-learner-0" || got.IP != "10.0.0.4" || got.State != Waiting || got.Has == nil {
		t.Errorf("%+v", got)
	}
}

func TestAListIsReceivedAndConfirmed(t *testing.T) {
	o, c := open(t)
	o.answers(key, o.receives().Nonce, `{"list-number": "1", "node-ips": "10.0.0.1"}`)
	<-c.Changed()
	if got := c.Said(); got["list-number"] != "1" || got["node-ips"] != "10.0.0.1" {
		t.Errorf("%v", got)
	}
	if got := o.receives(); got.Has != nil || got.State != Waiting {
		t.Errorf("%+v", got)
	}
}

// The operator answers the older request with 204, and the newer one with the list.
func TestAStateIsReportedWhileARequestIsOpen(t *testing.T) {
	o, c := open(t)
	o.receives()
	c.Report(Started)
	c.Report(Started)
	second := o.receives()
	if second.State != Started {
		t.Errorf("%+v", second)
	}
	fmt.Fprint(o.link, "HTTP/1.1 204 No Content\r\n\r\n")
	o.answers(key, second.Nonce, `{"list-number": "2"}`)
	<-c.Changed()
	if got := c.Said()["list-number"]; got != "2" {
		t.Errorf("revision %q", got)
	}
}

// count returns progress of this iteration.
func count(iteration int64) *progress.Report { return &progress.Report{Iteration: &iteration} }

func TestProgressIsSentAtMostEveryFewSecondsAndWithEachOtherReport(t *testing.T) {
	o, c := open(t)
	if got := o.receives(); got.Progress != nil {
		t.Errorf("%+v", got.Progress)
	}
	c.ReportProgress(count(1))
	if got := o.receives(); got.Progress == nil || *got.Progress.Iteration != 1 || got.State != Waiting {
		t.Errorf("%+v", got)
	}
	// The same progress is not sent again. Newer progress waits, and comes with the next report.
	// (Here, the interval does not pass, however slow the machine is.)
	c.lock.Lock()
	c.sentAt = time.Now().Add(time.Hour)
	c.lock.Unlock()
	for iteration := range int64(5) {
		c.ReportProgress(count(1 + iteration))
	}
	c.Report(Ended)
	if got := o.receives(); *got.Progress.Iteration != 5 || got.State != Ended {
		t.Errorf("%+v", got)
	}
	o.link.Close()
	o.accept()
	if got := o.receives(); got.Progress == nil || *got.Progress.Iteration != 5 {
		t.Errorf("%+v", got)
	}
}

func TestAfterALostConnectionTheLauncherSaysWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := simulated(t, Config{})
		o.answers(key, o.receives().Nonce, `{"list-number": "1"}`)
		o.receives()
		go c.Report(Ready)
		o.receives()
		o.link.Close()
		began := time.Now()
		o.accept()
		if got := o.receives(); got.State != Ready || got.Has["list-number"] != "1" {
			t.Errorf("%+v", got)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("it took %s", waited)
		}
	})
}

// Any pod could send these responses to this one.
func TestAForgedResponseIsIgnored(t *testing.T) {
	for _, row := range []struct {
		id, key string
		nonce   func(string) string
	}{
		{"another key", "other", func(nonce string) string { return nonce }},
		{"another nonce", key, func(string) string { return "old" }},
	} {
		t.Run(row.id, func(t *testing.T) {
			o, c := open(t)
			o.answers(row.key, row.nonce(o.receives().Nonce), `{"list-number": "9"}`)
			if rest, err := io.ReadAll(o.reads); err != nil || len(rest) > 0 {
				t.Errorf("%q, %v: the launcher must close the connection", rest, err)
			}
			if got := c.Said(); got != nil {
				t.Errorf("%v", got)
			}
		})
	}
}

// The operator's view of the pods may be outdated at first, and then it does not know the key of a new pod.
func TestARefusedLauncherTriesAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := simulated(t, Config{})
		for range 2 {
			o.receives()
			fmt.Fprint(o.link, "HTTP/1.1 403 Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			refused := time.Now()
			o.accept()
			if waited := time.Since(refused); waited < shortestRefusal/2 || waited > 2*time.Second {
				t.Errorf("it took %s", waited)
			}
		}
		o.receives()
	})
}

func TestAStandbyIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := simulated(t, Config{})
		began := time.Now()
		for range 3 {
			o.receives()
			fmt.Fprint(o.link, "HTTP/1.1 503 Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			o.accept()
		}
		o.receives()
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("it took %s", waited)
		}
	})
}

func TestAMissingConnectionIsReportedWithItsReasonOnceItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan error, 1)
		began := time.Now()
		o, _ := simulated(t, Config{Lost: func(err error) { lost <- err }})
		for {
			o.receives()
			fmt.Fprint(o.link, "HTTP/1.1 503 this replica is a standby\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			synctest.Wait()
			select {
			case err := <-lost:
				waited := time.Since(began)
				if waited < lostAfter || waited > lostAfter+longestPause || err.Error() != "HTTP status 503 this replica is a standby" {
					t.Errorf("after %s: %v", waited, err)
				}
				return
			default:
			}
			o.accept()
		}
	})
}

func TestTheNextLauncherOfAContainerKnowsTheNewestResponse(t *testing.T) {
	o, c := open(t)
	o.answers(key, o.receives().Nonce, `{"list-number": "4", "renew-from": "4"}`)
	<-c.Changed()
	o.receives()
	o.link.Close()
	t.Setenv("DIJOB_CHANNEL", o.server.Addr().String()+" job-learner-0 "+key)
	next := Open()
	defer next.Close()
	if got := next.Said(); got["list-number"] != "4" || got["renew-from"] != "4" {
		t.Errorf("%v", got)
	}
}
