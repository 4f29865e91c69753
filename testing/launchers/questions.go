package main

import (
	"encoding/json"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"sync"
)

// players has the launchers of all pods, and the data that the tests can query.
type players struct {
	api    *api
	strict bool

	lock      sync.Mutex
	launchers map[string]*launcher         // by the uid of the pod
	views     map[string]pod               // the newest view of each pod
	said      map[string]map[string]string // the newest response to each pod, which outlives its containers
	services  map[string][]string          // addresses of operators, by the address of their Service
	received  int                          // responses with a list
}

func newPlayers(api *api, strict bool) *players {
	return &players{
		api: api, strict: strict, launchers: map[string]*launcher{}, views: map[string]pod{},
		said: map[string]map[string]string{}, services: map[string][]string{},
	}
}

// replace applies a new list of pods. Pods that are not in the list are gone.
func (all *players) replace(pods []pod) {
	there := map[string]bool{}
	for _, one := range pods {
		there[one.Metadata.UID] = true
		all.see(sight{one, true})
	}
	all.lock.Lock()
	var gone []string
	for uid := range all.launchers {
		if !there[uid] {
			gone = append(gone, uid)
		}
	}
	all.lock.Unlock()
	for _, uid := range gone {
		all.forget(uid)
	}
}

// see passes a view of a pod to the pod's launcher, and starts the launcher if there is none yet.
func (all *players) see(p sight) {
	if len(p.channel()) != 3 {
		return
	}
	all.lock.Lock()
	defer all.lock.Unlock()
	one, known := all.launchers[p.Metadata.UID]
	if !known {
		one = &launcher{all: all, pods: make(chan sight, 1)}
		all.launchers[p.Metadata.UID] = one
		go one.run()
	}
	// The launcher takes only the newest view, once it is ready for one.
	select {
	case former := <-one.pods:
		p.listed = p.listed || former.listed
	default:
	}
	one.pods <- p
}

// forget ends the launcher of a pod that is gone.
func (all *players) forget(uid string) {
	all.lock.Lock()
	defer all.lock.Unlock()
	if one, known := all.launchers[uid]; known {
		close(one.pods)
		delete(all.launchers, uid)
		delete(all.views, uid)
		delete(all.said, uid)
	}
}

func (all *players) note(p pod) {
	all.lock.Lock()
	defer all.lock.Unlock()
	if _, known := all.launchers[p.Metadata.UID]; known {
		all.views[p.Metadata.UID] = p
	}
}

// receive stores a response from the operator in memory. The real launcher stores it in a volume of its pod.
func (all *players) receive(p pod, said map[string]string) {
	all.store(p, said)
	all.lock.Lock()
	defer all.lock.Unlock()
	all.received++
}

func (all *players) store(p pod, said map[string]string) {
	all.lock.Lock()
	defer all.lock.Unlock()
	if _, known := all.launchers[p.Metadata.UID]; known {
		all.said[p.Metadata.UID] = said
	}
}

// stored returns the newest response; an empty one if there was none.
func (all *players) stored(p pod) map[string]string {
	all.lock.Lock()
	defer all.lock.Unlock()
	if said := all.said[p.Metadata.UID]; said != nil {
		return said
	}
	return map[string]string{}
}

// listOf returns what the launcher of a pod knows from the pod's annotations and the operator's newest response.
func (all *players) listOf(p pod) map[string]string { return newest(p, all.stored(p)) }

// route returns the address of one of the operators behind a Service, as kube-proxy does.
func (all *players) route(address string) string {
	all.lock.Lock()
	defer all.lock.Unlock()
	if behind := all.services[address]; len(behind) > 0 {
		return behind[mathrand.IntN(len(behind))]
	}
	return address
}

// answerQuestions serves two paths on loopback, and returns the port. GET /launchers returns the number of received lists, and
// what each launcher knows. The launchers are identified by the uids of their pods. PUT /services sets which operators are
// behind which address.
func (all *players) answerQuestions() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	http.HandleFunc("GET /launchers", func(to http.ResponseWriter, _ *http.Request) {
		all.lock.Lock()
		defer all.lock.Unlock()
		lists := map[string]map[string]string{}
		for uid, view := range all.views {
			lists[uid] = newest(view, all.said[uid])
		}
		json.NewEncoder(to).Encode(map[string]any{"lists": lists, "received": all.received})
	})
	http.HandleFunc("PUT /services", func(to http.ResponseWriter, from *http.Request) {
		services := map[string][]string{}
		if err := json.NewDecoder(from.Body).Decode(&services); err != nil {
			http.Error(to, err.Error(), http.StatusBadRequest)
			return
		}
		all.lock.Lock()
		defer all.lock.Unlock()
		all.services = services
	})
	go func() { log.Fatal(http.Serve(listener, nil)) }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
