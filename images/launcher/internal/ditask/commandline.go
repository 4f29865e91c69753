package ditask

import (
	"path/filepath"
	"regexp"
	"strings"
)

var (
	python   = regexp.MustCompile(`^(python|pypy)`)
	isDitask = regexp.MustCompile(`^ditask$|/ditask$|^ding\.entry|cli_ditask`)
)

// IsAlone returns whether a command line is a ditask without --platform. Such a ditask does not read the job's variables.
func IsAlone(words []string) bool {
	words, found := afterDitask(words)
	if !found {
		return false
	}
	for _, word := range words {
		if word == "--platform" || strings.HasPrefix(word, "--platform=") {
			return false
		}
	}
	return true
}

// LeavesWorld returns the option that keeps a ditask command line from joining the job. It returns "" if the command joins, if
// it is not a ditask, or if its options state that it needs no peers.
func LeavesWorld(words []string) string {
	words, found := afterDitask(words)
	users := readOptions(words)
	if !found || users.needsNoPeers() {
		return ""
	}
	return users.ownWorld()
}

// afterDitask returns the arguments that a command line passes to ditask. It also returns whether the command line runs ditask.
func afterDitask(words []string) ([]string, bool) {
	if len(words) == 0 {
		return nil, false
	}
	name := filepath.Base(words[0])
	if name == "ditask" {
		return words[1:], true
	}
	if !python.MatchString(name) {
		return nil, false
	}
	for i := 1; i < len(words); i++ {
		switch {
		case words[i] == "-X" || words[i] == "-W":
			i++
		case isDitask.MatchString(words[i]):
			return words[i+1:], true
		case strings.HasPrefix(words[i], "-"):
		default:
			return nil, false
		}
	}
	return nil, false
}
