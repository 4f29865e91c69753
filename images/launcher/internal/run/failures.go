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

// The exit codes of a shell for a program that cannot be started.
const (
	notExecutable = 126
	notFound      = 127
)

// startError explains to the user why a program cannot be started. The kernel's own errors name neither the interpreter nor
// the variables that are the cause.
type startError struct {
	program string
	reason  error
	code    int // the launcher's exit code, the same as a shell's
}

func (e *startError) Error() string {
	return fmt.Sprintf("cannot run %s: %v", quoted(e.program), e.reason)
}

func (e *startError) Unwrap() error { return e.reason }

// explainStart returns the startError for an error from Go. The path is where the program was found, or "" if it was not.
func explainStart(name, path string, err error) *startError {
	explained := func(code int, reason error) *startError {
		return &startError{program: name, reason: reason, code: code}
	}
	switch {
	case strings.HasSuffix(name, "\r"):
		return explained(notFound, errors.New("its name ends with a carriage return: save the text with Unix line endings"))
	case errors.Is(err, syscall.E2BIG):
		return explained(notExecutable, tooLarge(os.Environ()))
	case path != "" && errors.Is(err, fs.ErrNotExist):
		return explained(notFound, notLoaded(path))
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return explained(notFound, fmt.Errorf("program not found (PATH=%s)", os.Getenv("PATH")))
	}
	return explained(notExecutable, errors.Unwrap(err))
}

// notLoaded says what is missing if a program cannot be started although its file exists. The kernel also reports ENOENT for
// a missing interpreter or loader, and does not say which file it means.
func notLoaded(path string) error {
	line := env.FirstLine(path)
	interpreter, isScript := strings.CutPrefix(line, "#!")
	switch {
	case isScript && strings.HasSuffix(line, "\r"):
		return errors.New("its first line ends with a carriage return: save the file with Unix line endings")
	case isScript:
		return fmt.Errorf("its interpreter does not exist: %s", strings.TrimSpace(interpreter))
	}
	return errors.New("the dynamic loader that it needs does not exist in this image")
}

// tooLarge explains E2BIG. Linux limits the total size of a program's arguments and environment. In practice the cause is
// enableServiceLinks, which adds seven variables for each Service of the namespace.
func tooLarge(environment []string) error {
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
	return errors.New(reason)
}

// quoted returns a word in quotes, with escapes if it contains characters that a terminal does not show.
func quoted(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' }) {
		return fmt.Sprintf("%q", word)
	}
	return "'" + word + "'"
}
