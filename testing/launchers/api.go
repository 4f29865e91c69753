package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// pod is the part of a pod that a launcher and its kubelet need.
type pod struct {
	Metadata struct {
		Name, Namespace, UID, ResourceVersion string
		DeletionTimestamp                     string
		Annotations, Labels                   map[string]string
		OwnerReferences                       []struct{ Name, UID string }
	}
	Spec struct {
		Containers []struct {
			Env []struct{ Name, Value string }
		}
	}
	Status struct {
		Phase             string
		PodIP             string           `json:"podIP"`
		ContainerStatuses []map[string]any // atomic in a patch, so all fields are kept
	}
}

// channel returns the words of DIJOB_CHANNEL; nil if the pod has no channel.
func (p pod) channel() []string {
	for _, container := range p.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == "DIJOB_CHANNEL" {
				return strings.Fields(variable.Value)
			}
		}
	}
	return nil
}

// job returns the key of the job that owns the pod: NAMESPACE/NAME/UID.
func (p pod) job() string {
	for _, owner := range p.Metadata.OwnerReferences {
		return strings.Join([]string{p.Metadata.Namespace, owner.Name, owner.UID}, "/")
	}
	return ""
}

func (p pod) version() int {
	number, _ := strconv.Atoi(p.Metadata.ResourceVersion)
	return number
}

// ends returns whether the pod has ended or is being deleted.
func (p pod) ends() bool {
	return p.Metadata.DeletionTimestamp != "" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// container returns the status of the main container; nil if it is not running. A pod with a channel has no other container.
func (p pod) container() map[string]any {
	if p.Status.Phase != "Running" || p.Status.PodIP == "" || len(p.Status.ContainerStatuses) == 0 {
		return nil
	}
	found := p.Status.ContainerStatuses[0]
	state, _ := found["state"].(map[string]any)
	if _, runs := state["running"]; !runs {
		return nil
	}
	return found
}

// api is a client of the API server.
type api struct {
	client                   *http.Client
	server, token, namespace string
}

// mostPatches limits the patches that are sent at the same time.
const mostPatches = 32

func newAPI(server, authority, token, namespace string) (*api, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: mostPatches}
	transport.MaxConnsPerHost = mostPatches + 1 // one for the watch
	return &api{&http.Client{Transport: transport}, server, token, namespace}, nil
}

// call sends a request and decodes the response. It returns the HTTP status.
func (a *api) call(method, path, kind string, body, into any) (int, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequest(method, a.server+path, bytes.NewReader(sent))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Content-Type", kind)
	request.Header.Set("User-Agent", "simulated-launchers")
	answer, err := a.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 500))
		return answer.StatusCode, fmt.Errorf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return answer.StatusCode, json.NewDecoder(answer.Body).Decode(into)
}

// follow lists the pods, and then watches them until an error occurs. During an outage, each attempt returns the same error.
func (a *api) follow(all *players) error {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods", a.namespace)
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []pod
	}
	if _, err := a.call("GET", path, "", nil, &list); err != nil {
		return err
	}
	all.replace(list.Items)
	request, err := http.NewRequest("GET", fmt.Sprintf("%s%s?watch=1&resourceVersion=%s", a.server, path, list.Metadata.ResourceVersion), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("a watch: %s", response.Status)
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
		switch event.Type {
		case "ADDED", "MODIFIED":
			all.see(sight{pod: event.Object})
		case "DELETED":
			all.forget(event.Object.Metadata.UID)
		default:
			return fmt.Errorf("a watch ended with %s", event.Type)
		}
	}
}

// setContainer writes the status of the main container, as the kubelet does. It returns the new pod, and whether the pod has
// changed in the meantime.
func (a *api) setContainer(p pod, container map[string]any) (made pod, old bool, err error) {
	ready, now := "False", time.Now().UTC().Format(time.RFC3339)
	if container["ready"] == true {
		ready = "True"
	}
	condition := func(kind string) map[string]any {
		return map[string]any{"type": kind, "status": ready, "reason": "", "lastTransitionTime": now}
	}
	patch := map[string]any{
		"metadata": map[string]any{"uid": p.Metadata.UID, "resourceVersion": p.Metadata.ResourceVersion},
		"status": map[string]any{
			"conditions":        []any{condition("Ready"), condition("ContainersReady")},
			"containerStatuses": []any{container},
		},
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/status?fieldManager=kwok", a.namespace, p.Metadata.Name)
	status, err := a.call("PATCH", path, "application/strategic-merge-patch+json", patch, &made)
	return made, status == http.StatusConflict || status == http.StatusNotFound, err
}
