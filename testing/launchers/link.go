package main

import (
	"log"
	"net"

	"dijob-launcher/internal/channel"
)

// open starts the channel of one launcher process. Until the channel is closed, it reconnects whenever it loses its
// connection to the operator.
func open(all *players, p pod, state channel.State) *channel.Channel {
	words, dialer := p.channel(), channel.Dialer()
	// The operator accepts a report only from the pod's own address, which is a loopback address here.
	dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(p.Status.PodIP)}
	return channel.New(channel.Config{
		Address: words[0], Pod: words[1], Key: words[2], Job: p.job(), IP: p.Status.PodIP, State: state, Said: all.stored(p),
		Dial:    func() (net.Conn, error) { return dialer.Dial("tcp", all.route(words[0])) },
		Keep:    func(said map[string]string, _ []byte) { all.receive(p, said) },
		Lost:    func(error) {}, // the tests interrupt connections
		Refused: func(err error) { all.refuse(p, err) },
	})
}

// refuse writes to the log that the operator has refused a report. With the option -strict, it then ends the process.
func (all *players) refuse(p pod, err error) {
	log.Printf("%s: %v", p.Metadata.Name, err)
	if all.strict {
		log.Fatal("this would falsify the measurement")
	}
}
