// Prints the health of DIJobs as GitOps tools compute it. Each line of the input is a JSON object.
// Each line of the output has two statuses, each with its message. One is computed by kstatus,
// which Flux and Helm 4 use. The other one is computed by a Lua script, which runs in the
// interpreter that Argo CD uses. The program's first argument is the path of this script. Each line
// also has the outcome of an Argo Workflows step. The program's second and third arguments are the
// success condition and the failure condition of this step.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/tidwall/gjson"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type result struct {
	Kstatus health `json:"kstatus"`
	Argo    health `json:"argo"`
	Step    string `json:"step"`
}

func main() {
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	success, failure := requirements(os.Args[2]), requirements(os.Args[3])
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		body := lines.Bytes()
		found := result{byKstatus(body), byArgo(string(script), body), byStep(success, failure, body)}
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			log.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func byKstatus(body []byte) health {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		log.Fatal(err)
	}
	found, err := kstatus.Compute(object)
	if err != nil {
		log.Fatal(err)
	}
	return health{found.Status.String(), found.Message}
}

// Argo Workflows parses a condition as a label selector. The keys of the selector are gjson paths
// (workflow/executor/resource.go).
func requirements(condition string) labels.Requirements {
	selector, err := labels.Parse(condition)
	if err != nil {
		log.Fatal(err)
	}
	found, _ := selector.Requirements()
	return found
}

type fields []byte

func (body fields) Has(path string) bool { return gjson.GetBytes(body, path).Exists() }

func (body fields) Get(path string) string { return gjson.GetBytes(body, path).String() }

func (body fields) Lookup(path string) (string, bool) { return body.Get(path), body.Has(path) }

// A step fails if any failure condition is met. If none is met, it succeeds once all success
// conditions are met. Until then it waits.
func byStep(success, failure labels.Requirements, body []byte) string {
	for _, one := range failure {
		if one.Matches(fields(body)) {
			return "Failed"
		}
	}
	for _, one := range success {
		if !one.Matches(fields(body)) {
			return "Running"
		}
	}
	return "Succeeded"
}

// Argo CD runs a script with the object in the variable obj, and only with these libraries
// (util/lua/lua.go).
func byArgo(script string, body []byte) health {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName:   lua.OpenPackage,
		lua.BaseLibName:   lua.OpenBase,
		lua.TabLibName:    lua.OpenTable,
		lua.StringLibName: lua.OpenString,
		lua.MathLibName:   lua.OpenMath,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	var object any
	if err := json.Unmarshal(body, &object); err != nil {
		log.Fatal(err)
	}
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		log.Fatal(err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		log.Fatal("the script returned no table")
	}
	text := func(key string) string {
		value := answer.RawGetString(key)
		if value == lua.LNil {
			return ""
		}
		return fmt.Sprint(value)
	}
	return health{text("status"), text("message")}
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		table := state.CreateTable(len(value), 0)
		for _, each := range value {
			table.Append(toLua(state, each))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(value))
		for key, each := range value {
			table.RawSetString(key, toLua(state, each))
		}
		return table
	}
	return lua.LNil
}
