package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// As in the real launcher (images/launcher/internal/channel).
const (
	dialTimeout   = 500 * time.Millisecond
	sendTimeout   = 2 * time.Second
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
	aliveEvery    = 5 * time.Second

	shortestRefusal = time.Second
	longestRefusal  = 30 * time.Second
)

// message is a report.
type message struct {
	Job   string            `json:"job"`
	Pod   string            `json:"pod"`
	IP    string            `json:"ip"`
	Nonce string            `json:"nonce"`
	State string            `json:"state"`
	Has   map[string]string `json:"has"` // null after the first report of a connection
}

// link is the channel of one launcher process.
type link struct {
	all          *players
	pod          pod
	address, key string
	about        message
	changed      chan struct{} // receives a value after a response
	ends         context.Context
	end          context.CancelFunc

	lock   sync.Mutex
	state  string
	socket net.Conn // nil while there is no connection
	nonces []string // of the requests without a response, oldest first
}

var errRefused = errors.New("the operator refuses the report")

// open starts to keep a connection.
func open(all *players, p pod, state string) *link {
	words := p.channel()
	ends, end := context.WithCancel(context.Background())
	l := &link{
		all: all, pod: p, address: words[0], key: words[2], state: state, changed: make(chan struct{}, 1), ends: ends, end: end,
		about: message{Job: p.job(), Pod: words[1], IP: p.Status.PodIP},
	}
	go l.keep()
	return l
}

// report tells the operator what the program is doing now.
func (l *link) report(state string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if state != l.state {
		l.state = state
		l.send(nil)
	}
}

// stop closes the connection.
func (l *link) stop() {
	l.end()
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.socket != nil {
		l.socket.Close()
	}
}

// keep reconnects whenever the connection is lost.
func (l *link) keep() {
	refusal := shortestRefusal
	for pause := shortestPause; l.ends.Err() == nil; pause = min(2*pause, longestPause) {
		began := time.Now()
		err := l.converse()
		if time.Since(began) > longestPause {
			pause, refusal = shortestPause, shortestRefusal
		}
		wait := time.Duration(mathrand.Float64() * float64(pause))
		if errors.Is(err, errRefused) && l.ends.Err() == nil {
			l.all.refuse(l.pod, err)
			wait = refusal/2 + time.Duration(mathrand.Float64()*float64(refusal/2))
			refusal = min(2*refusal, longestRefusal)
		}
		select {
		case <-time.After(wait):
		case <-l.ends.Done():
		}
	}
}

// converse sends the report and receives responses until the connection is lost.
func (l *link) converse() error {
	// The operator accepts a report only from the pod's own address, which is a loopback address here.
	dialer := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(l.about.IP)}, Timeout: dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveEvery, Interval: aliveEvery, Count: 3},
	}
	socket, err := dialer.DialContext(l.ends, "tcp", l.all.route(l.address))
	if err != nil {
		return err
	}
	defer socket.Close()
	l.lock.Lock()
	l.socket, l.nonces = socket, nil
	if l.ends.Err() == nil {
		l.send(l.all.stored(l.pod))
	}
	l.lock.Unlock()
	for answers := bufio.NewReader(socket); err == nil; {
		err = l.receive(answers)
	}
	l.lock.Lock()
	l.socket = nil
	l.lock.Unlock()
	return err
}

// send sends the current report. If that fails, the connection is lost, and the next one begins with a report. The caller holds
// the lock.
func (l *link) send(has map[string]string) {
	if l.socket == nil {
		return
	}
	report := l.about
	report.Nonce, report.State, report.Has = rand.Text(), l.state, has
	body, _ := json.Marshal(report)
	l.nonces = append(l.nonces, report.Nonce)
	l.socket.SetWriteDeadline(time.Now().Add(sendTimeout))
	fmt.Fprintf(l.socket, "POST /v1/report HTTP/1.1\r\nHost: %s\r\nAuthorization: dijob %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", l.address, sign(l.key, body), len(body), body)
}

// receive reads one response.
func (l *link) receive(answers *bufio.Reader) error {
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if len(l.nonces) == 0 {
		return fmt.Errorf("%w: there is a response without a request", errRefused)
	}
	nonce := l.nonces[0]
	l.nonces = l.nonces[1:]
	switch answer.StatusCode {
	case 204: // the next request has taken its place
		return nil
	case 200:
	case 503: // a standby, or a limit
		return errors.New("the operator is not ready")
	default:
		return fmt.Errorf("%w: %s", errRefused, answer.Status)
	}
	if answer.Header.Get("Authorization") != "dijob "+sign(l.key, append([]byte(nonce+"\n"), body...)) {
		return fmt.Errorf("%w: the response has a wrong signature", errRefused)
	}
	var said map[string]string
	if err := json.Unmarshal(body, &said); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	l.all.receive(l.pod, said)
	select {
	case l.changed <- struct{}{}:
	default:
	}
	l.send(nil)
	return nil
}

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// refuse notes that the operator has refused a report.
func (all *players) refuse(p pod, err error) {
	log.Printf("%s: %v", p.Metadata.Name, err)
	if all.strict {
		log.Fatal("this would falsify the measurement")
	}
}
