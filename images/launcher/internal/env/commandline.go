// Package env provides what the pod and the kernel give to the launcher: its command line, signals, variables, annotations and
// paths, and the destinations of its messages.
package env

import (
	"path/filepath"
	"slices"
	"strings"
)

// Called returns the name by which this program was called, and its arguments. If a link in the volume was
// called, the name is the link's name. If the binary itself was called, the name is its first argument.
func Called(words []string) (name string, arguments []string) {
	name = filepath.Base(words[0])
	if len(words) == 1 || slices.Contains([]string{"install", "gate", "launch", "ditask", "reach", "hold"}, name) {
		return name, words[1:]
	}
	return words[1], words[2:]
}

// HasCarriageReturn returns whether any word of a command line contains a line that ends with a carriage return, as on Windows.
func HasCarriageReturn(words []string) bool {
	for _, word := range words {
		if strings.Contains(word, "\r\n") || strings.HasSuffix(word, "\r") {
			return true
		}
	}
	return false
}
