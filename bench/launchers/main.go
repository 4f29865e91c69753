// Command launchers plays the launchers of simulated pods: it watches the pods of a namespace, and opens a connection to the
// operator for each pod that runs, from the address of the pod (images/launcher/internal/channel). It exits if the operator
// responds with an error, because that would falsify the measurement.
package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

type pod struct {
	Metadata struct {
		Name, Namespace, UID string
		OwnerReferences      []struct{ Name, UID string }
	}
	Spec struct {
		Containers []struct {
			Env []struct{ Name, Value string }
		}
	}
	Status struct {
		Phase string
		PodIP string `json:"podIP"`
	}
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	ca := flag.String("ca", "", "file with its certificate authority")
	namespace := flag.String("namespace", "", "namespace of the pods")
	flag.Parse()
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(*ca)
	check(err)
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request, err := http.NewRequest("GET", fmt.Sprintf("%s/api/v1/namespaces/%s/pods?watch=1", *server, *namespace), nil)
	check(err)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	seen := map[string]bool{}
	fmt.Println("watching")
	for {
		// The apiserver closes a watch whose client is too slow.
		if err := follow(client, request, seen); err != nil {
			log.Print(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func follow(client *http.Client, request *http.Request, seen map[string]bool) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return fmt.Errorf("%s", response.Status)
	}
	events := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string
			Object pod
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		p := event.Object
		if p.Status.Phase != "Running" || seen[p.Metadata.UID] || event.Type == "DELETED" {
			continue
		}
		for _, variable := range p.Spec.Containers[0].Env {
			if variable.Name == "DIJOB_CHANNEL" {
				seen[p.Metadata.UID] = true
				go launch(p, strings.Fields(variable.Value))
			}
		}
	}
}

func launch(p pod, channel []string) {
	// The operator accepts a report only from the pod's own address, which is a loopback address here.
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(p.Status.PodIP)}}
	connection, err := from.Dial("tcp", channel[0])
	check(err)
	answers := bufio.NewReader(connection)
	owner := p.Metadata.OwnerReferences[0]
	job := p.Metadata.Namespace + "/" + owner.Name + "/" + owner.UID
	state, has := "waiting", map[string]string{}
	for {
		body, _ := json.Marshal(map[string]any{"job": job, "pod": p.Metadata.Name,
			"ip": p.Status.PodIP, "state": state, "has": has, "nonce": "0123456789abcdef"})
		fmt.Fprintf(connection, "POST /v1/report HTTP/1.1\r\nHost: dijob\r\nAuthorization: dijob %s\r\nContent-Length: %d\r\n\r\n%s",
			sign(channel[1], body), len(body), body)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return
		}
		made, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != 200 || answer.Header.Get("Authorization") != "dijob "+sign(channel[1], append([]byte("0123456789abcdef\n"), made...)) {
			log.Fatalf("%s: %s %s", p.Metadata.Name, answer.Status, made)
		}
		var said map[string]string
		check(json.Unmarshal(made, &said))
		state, has = "started", nil
	}
}

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
