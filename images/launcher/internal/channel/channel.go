// Package channel connects the launcher to the operator. The launcher reports the state of its program, and receives the
// peer list without the delay of the API server and the kubelet. A message from the operator has the same content as the pod's
// annotations.
//
// The launcher has one connection. It sends its report as an HTTP request, and the operator responds when it has a newer list.
// If there is something else to report before that, the launcher sends the next request immediately, and the operator answers
// the pending one with 204. Requests and responses are signed with the pod's key (operator/dijob/controller/channel/server.py).
package channel

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/progress"
)

// State is what the launcher's program is doing.
type State string

const (
	Waiting State = "waiting" // for the peer list, or until its failure has been counted
	Started State = "started" // the program runs
	Ready   State = "ready"   // the program listens on its port and has its peers
	Ended   State = "ended"
)

const (
	// The timeout is short: the Service may still route to a deleted pod of the operator, and the next attempt may reach another
	// pod.
	dialTimeout = 500 * time.Millisecond
	sendTimeout = 2 * time.Second
	// The pauses before the next attempt to connect. Launchers must reconnect within a second of the operator's restart, but a
	// thousand of them must not do so at the same moment.
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
	// The pauses after the operator has refused a request. The first ones are short, because the operator's view of the pods may
	// be outdated. The later ones are longer, because an operator that has refused several times is unlikely to accept the next
	// attempt.
	shortestRefusal = time.Second
	longestRefusal  = 30 * time.Second
	// The size limit of a response. A list of 1,500 IPv6 addresses is 60 KB long.
	mostBytes = 1 << 20
	// A missing connection is logged after lostAfter, and then once per logEvery. After this time, the operator sends the peer
	// list as annotations (operator/dijob/controller/channel/launchers.py: PATIENCE_SECONDS).
	lostAfter = 2 * time.Second
	logEvery  = time.Minute
	// The shortest interval between two reports of the program's progress.
	progressEvery = 3 * time.Second
	// With this interval, the kernel needs about 15 s to detect that the other end of a connection is gone.
	aliveEvery = 5 * time.Second
)

// message is a report (operator/dijob/controller/channel/server.py: _read_report).
type message struct {
	Job   string `json:"job"` // NAMESPACE/NAME/UID
	Pod   string `json:"pod"`
	IP    string `json:"ip"`
	Nonce string `json:"nonce"`
	State State  `json:"state"`
	// The newest progress of the program; absent if it has not reported any.
	Progress *progress.Report  `json:"progress,omitempty"`
	Stack    *stack            `json:"stack,omitempty"`
	Has      map[string]string `json:"has"` // the newest response; null after the first report of a connection
}

// stack is the answer to a request for the stack of the program's main thread. Each report contains the newest stack until the
// program makes progress, so that a new operator gets it, too.
type stack struct {
	Asked string `json:"asked"`
	Text  string `json:"text"`
}

// Config is what a channel needs.
type Config struct {
	Address, Key string
	Job, Pod, IP string
	State        State                    // what the program is doing at first
	Said         map[string]string        // the newest response to an earlier channel of this pod; nil if there was none
	Dial         func() (net.Conn, error) // connects to the operator
	Keep         func(said map[string]string, body []byte)
	Lost         func(error) // is called once per logEvery while there has been no connection for lostAfter
	Refused      func(error) // is called when the operator refuses a report
}

// Channel is the launcher's connection to the operator. A nil channel reports nothing and never has an answer.
type Channel struct {
	config  Config
	changed chan struct{}
	closed  chan struct{}

	lock  sync.Mutex
	state State
	// The newest progress, and when it was last sent. Each report contains the newest progress. So the first report of a new
	// connection repeats the progress.
	progress *progress.Report
	stack    *stack // since the newest progress; nil if the operator has not asked
	sentAt   time.Time
	pending  bool              // whether the newest progress has not been sent
	said     map[string]string // the newest response
	link     net.Conn          // nil while there is no connection
	nonces   []string          // of the requests without a response, oldest first
}

// refusedError is a response by which the operator rejects the requests of this launcher.
type refusedError struct{ reason string }

func (e refusedError) Error() string { return "the operator refuses this pod's reports: " + e.reason }

// Open connects to the operator, and stays connected until the process ends. It returns nil if the operator has given the pod
// no channel. DIJOB_CHANNEL is "HOST:PORT POD KEY".
func Open() *Channel {
	words := strings.Fields(os.Getenv("DIJOB_CHANNEL"))
	// The program must not inherit the key.
	os.Unsetenv("DIJOB_CHANNEL")
	if len(words) != 3 {
		return nil
	}
	os.MkdirAll(env.RunFolder(), 0o777)
	dialer := Dialer()
	return New(Config{
		Address: words[0], Pod: words[1], Key: words[2],
		Job:   strings.Join([]string{os.Getenv("DI_JOB_NAMESPACE"), os.Getenv("DI_JOB_NAME"), os.Getenv("DI_JOB_ID")}, "/"),
		IP:    os.Getenv("DI_POD_IP"),
		State: Waiting,
		// The previous launcher of this container has stored the operator's response. With this response, the program can restart
		// while the operator is down. The channel also sends this response to the operator, so that a restarted operator learns what
		// it had requested before its restart. The operator verifies the response in the same way as an annotation.
		Said: env.StoredResponse(),
		Dial: func() (net.Conn, error) { return dialer.Dial("tcp", words[0]) },
		Keep: store,
		Lost: func(err error) {
			env.Logf("no connection to the operator at %s (%v): the peer list comes from the pod's annotations", words[0], err)
		},
		Refused: func(error) {}, // Lost reports it if it lasts
	})
}

// New connects to the operator, and stays connected until Close is called.
func New(config Config) *Channel {
	c := &Channel{
		config: config, changed: make(chan struct{}, 1), closed: make(chan struct{}), state: config.State, said: config.Said,
	}
	go c.keep()
	return c
}

// Dialer returns a dialer for connections to the operator.
func Dialer() net.Dialer {
	return net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: aliveEvery, Interval: aliveEvery, Count: 3,
	}}
}

// Close closes the connection for good.
func (c *Channel) Close() {
	close(c.closed)
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.link != nil {
		c.link.Close()
	}
}

// store writes the newest response for the next launcher of this container. If this fails because the volume is full, that
// launcher asks the operator.
func store(_ map[string]string, body []byte) {
	if os.WriteFile(env.SaidPath()+".new", body, 0o644) == nil {
		os.Rename(env.SaidPath()+".new", env.SaidPath())
	}
}

// Report tells the operator what the program is doing now.
func (c *Channel) Report(state State) {
	if c == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if state == c.state {
		return
	}
	c.state = state
	c.send(nil)
}

// ReportProgress tells the operator the program's progress if it has changed, at most once per progressEvery. If less than
// progressEvery has passed since progress was last sent, a later call sends the progress. The last progress is sent with the
// state Ended.
func (c *Channel) ReportProgress(news *progress.Report) {
	if c == nil || news == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if news.Same(c.progress) && !c.pending {
		return
	}
	if news.After(c.progress) {
		c.stack = nil
	}
	c.progress, c.pending = news, true
	if time.Since(c.sentAt) >= progressEvery {
		c.send(nil)
	}
}

// ReportStack answers the operator's request for the stack of the program's main thread.
func (c *Channel) ReportStack(asked, text string) {
	if c == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.stack = &stack{asked, text}
	c.send(nil)
}

// Said returns the annotations in the operator's newest response, without their prefix. Before the first response, it
// returns the annotations in the response that the previous launcher has stored. It returns nil if no response is stored.
func (c *Channel) Said() map[string]string {
	if c == nil {
		return nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.said)
}

// Connected returns whether there is a connection to the operator. If the connection is lost, the result may stay true for some
// seconds, until the loss is noticed.
func (c *Channel) Connected() bool {
	if c == nil {
		return false
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.link != nil
}

// Changed returns a channel that delivers a value when the operator has sent a new response (see Said). The channel holds at
// most one value: while this value waits to be received, further responses do not add another value.
func (c *Channel) Changed() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.changed
}

// keep reconnects whenever the connection is lost.
func (c *Channel) keep() {
	var logged time.Time
	missing := time.Now() // since when there has been no connection
	for pause, refusal := shortestPause, shortestRefusal; !c.isClosed(); {
		began := time.Now()
		err := c.converse()
		if time.Since(began) > longestPause {
			pause, refusal = shortestPause, shortestRefusal
			missing = time.Now()
		}
		if time.Since(missing) > lostAfter && time.Since(logged) > logEvery {
			logged = time.Now()
			c.config.Lost(err)
		}
		wait := time.Duration(mathrand.Float64() * float64(pause))
		if refused := (refusedError{}); errors.As(err, &refused) && !c.isClosed() {
			c.config.Refused(err)
			// Half of the pause is random, so that not all launchers reconnect at the same moment.
			wait = refusal/2 + time.Duration(mathrand.Float64()*float64(refusal/2))
			refusal = min(2*refusal, longestRefusal)
		}
		select {
		case <-time.After(wait):
		case <-c.closed:
		}
		pause = min(2*pause, longestPause)
	}
}

func (c *Channel) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// converse sends the report and receives answers until the connection is lost.
func (c *Channel) converse() error {
	link, err := c.config.Dial()
	if err != nil {
		return err
	}
	defer c.close(link)
	c.lock.Lock()
	c.link, c.nonces = link, nil
	has := c.said
	if has == nil {
		has = map[string]string{}
	}
	if !c.isClosed() {
		c.send(has)
	}
	c.lock.Unlock()
	for answers := textproto.NewReader(bufio.NewReader(link)); !c.isClosed(); {
		if err := c.receive(answers); err != nil {
			return err
		}
	}
	return nil
}

func (c *Channel) close(link net.Conn) {
	c.lock.Lock()
	defer c.lock.Unlock()
	link.Close()
	c.link = nil
}

// send sends the current report. If that fails, the connection is lost, and the next one begins with a report. The caller
// holds the lock.
func (c *Channel) send(has map[string]string) {
	if c.link == nil {
		return
	}
	report := message{
		Job: c.config.Job, Pod: c.config.Pod, IP: c.config.IP, Nonce: rand.Text(), State: c.state, Progress: c.progress, Stack: c.stack,
		Has: has,
	}
	if c.progress != nil {
		c.progress.SetIdle(time.Now())
		c.sentAt, c.pending = time.Now(), false
	}
	body, _ := json.Marshal(report)
	c.nonces = append(c.nonces, report.Nonce)
	c.link.SetWriteDeadline(time.Now().Add(sendTimeout))
	fmt.Fprintf(c.link, "POST /v1/report HTTP/1.1\r\nHost: %s\r\nAuthorization: dijob %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", c.config.Address, c.sign(body), len(body), body)
}

// receive reads one response.
func (c *Channel) receive(answers *textproto.Reader) error {
	status, reason, signature, body, err := readResponse(answers)
	if err != nil {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.nonces) == 0 {
		return errors.New("a response without a request")
	}
	nonce := c.nonces[0]
	c.nonces = c.nonces[1:]
	switch status {
	case 204: // the next request has taken its place
		return nil
	case 200:
	case 503: // the operator is a standby, does not know the pod or its address yet, or has reached a limit
		return errors.New(reason)
	default:
		return refusedError{reason}
	}
	if !hmac.Equal([]byte(signature), []byte("dijob "+c.sign([]byte(nonce), body))) {
		return refusedError{"the response has a wrong signature"}
	}
	var said map[string]string
	if err := json.Unmarshal(body, &said); err != nil {
		return err
	}
	c.said = said
	c.config.Keep(said, body)
	select {
	case c.changed <- struct{}{}:
	default:
	}
	c.send(nil)
	return nil
}

// readResponse reads one response from the operator. A response has a length, except with status 204. `reason` is the status code
// with its reason phrase, for a message. The package net/http would double the size of this program.
func readResponse(answers *textproto.Reader) (status int, reason, signature string, body []byte, err error) {
	line, err := answers.ReadLine()
	if err != nil {
		return 0, "", "", nil, err
	}
	_, result, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(result, " ")
	fields, err := answers.ReadMIMEHeader()
	if err != nil && len(fields) == 0 && err != io.EOF {
		return 0, "", "", nil, err
	}
	size := env.Natural(fields.Get("Content-Length"))
	if size > mostBytes {
		return 0, "", "", nil, errors.New("the response is too long")
	}
	body = make([]byte, size)
	_, err = io.ReadFull(answers.R, body)
	return env.Natural(code), "HTTP status " + result, fields.Get("Authorization"), body, err
}

// sign returns the signature of a message as hex.
func (c *Channel) sign(parts ...[]byte) string {
	mac := hmac.New(sha256.New, []byte(c.config.Key))
	mac.Write(bytes.Join(parts, []byte("\n")))
	return hex.EncodeToString(mac.Sum(nil))
}
