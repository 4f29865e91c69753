package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"dijob-launcher/internal/env"
)

// whyNotStarted returns a message for the user about a program that cannot be started, and the exit code of a shell in this
// case: 127 for a file that does not exist, else 126. The path is where the program was found, or "" if it was not. The
// kernel's own errors name neither the interpreter nor the variables that are the cause.
func whyNotStarted(name, path string, err error) (reason string, code int) {
	switch {
	case strings.HasSuffix(name, "\r"):
		return "its name ends with a carriage return: save the text with Unix line endings", 127
	case errors.Is(err, syscall.E2BIG):
		return tooLarge(os.Environ()), 126
	case path != "" && errors.Is(err, fs.ErrNotExist):
		return whyNotLoaded(path), 127
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("program not found (PATH=%s)", os.Getenv("PATH")), 127
	}
	return errors.Unwrap(err).Error(), 126
}

// whyNotLoaded returns what is missing for a program whose file exists. The kernel reports ENOENT for the interpreter or the
// loader, too, and does not say which file it means.
func whyNotLoaded(path string) string {
	line := env.FirstLine(path)
	interpreter, isScript := strings.CutPrefix(line, "#!")
	switch {
	case isScript && strings.HasSuffix(line, "\r"):
		return "its first line ends with a carriage return: save the file with Unix line endings"
	case isScript:
		return fmt.Sprintf("its interpreter does not exist: %s", strings.TrimSpace(interpreter))
	}
	return "the dynamic loader that it needs does not exist in this image"
}

// tooLarge explains E2BIG. Linux limits the total size of a program's arguments and environment. In practice the cause is
// enableServiceLinks, which adds seven variables for each Service of the namespace.
func tooLarge(environment []string) string {
	services, size := 0, 0
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		size += len(variable)
		if strings.HasSuffix(name, "_SERVICE_HOST") {
			services++
		}
	}
	reason := fmt.Sprintf("its arguments and environment are too large for Linux; the environment has %d variables with %d KiB",
		len(environment), size>>10)
	if services > 1 {
		reason += fmt.Sprintf(", many of them for the %d Services of the namespace: set enableServiceLinks: false in the template",
			services)
	}
	return reason
}

// quoted returns a word in quotes, with escapes if it contains characters that a terminal does not show.
func quoted(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' }) {
		return fmt.Sprintf("%q", word)
	}
	return "'" + word + "'"
}
