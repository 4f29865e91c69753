// Command launchers acts as the launchers of simulated pods. It also writes the container statuses that a kubelet would report.
// It watches the pods of a namespace. For each running pod with a channel, it opens a connection to the operator from the pod's
// address. It behaves like the real launcher, and uses that launcher's channel package (images/launcher/internal/channel).
//
// It prints the port on which it answers questions from the tests (questions.go).
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	server := flag.String("server", "", "URL of the API server")
	ca := flag.String("ca", "", "file with its certificate authority")
	namespace := flag.String("namespace", "", "namespace of the pods")
	strict := flag.Bool("strict", false, "exit if the operator refuses a report, because that would falsify a measurement")
	flag.Parse()
	api, err := newAPI(*server, *ca, os.Getenv("TOKEN"), *namespace)
	check(err)
	all := newPlayers(api, *strict)
	port, err := all.answerQuestions()
	check(err)
	fmt.Println(port)
	for logged := ""; ; time.Sleep(50 * time.Millisecond) {
		// The apiserver closes a watch whose client is too slow. The apiserver may also be down.
		if err := api.follow(all); err != nil && err.Error() != logged {
			logged = err.Error()
			log.Print(err)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
