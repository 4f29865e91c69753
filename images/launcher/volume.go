package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// binFolder returns the directory of these programs, an emptyDir (operator/dijob/pod.py).
func binFolder() string { return variable("DIJOB_BIN_DIR", "/run/dijob/bin") }

// Directories next to the programs: the runtime hook for Python processes (images/dijob-runtime), and the directory that is
// prepended to PATH. The programs' own directory is not in PATH, because it would hide the image's programs `gate`, `launch`
// or `reach`.
const (
	pythonFolder = "python"
	pathFolder   = "path"
)

// podFolder is the downwardAPI volume in which the kubelet writes the pod's annotations (operator/dijob/pod.py). Its path is
// derived from the program's own path and not read from the environment, because the image or envFrom could forge it there.
var podFolder = filepath.Join(filepath.Dir(binFolderOf(os.Args[0])), "pod")

// install copies this program into the volume and creates its other names. Each file is renamed into place: install runs again
// in a new sandbox of the pod, whose volume still has the files, and must neither leave half a file nor write to a program
// that is running.
func install([]string) int {
	syscall.Umask(0o022) // the main container may run as another user
	bin := binFolder()
	if err := installInto(bin); err != nil {
		say("cannot write %s: it must be an emptyDir that this user can write to: %v", bin, err)
		return 1
	}
	return 0
}

// hold waits for the signal that ends its container, without using any CPU time.
func hold([]string) int {
	fmt.Println("dijob: keeps the launcher's image on this node and does nothing else")
	<-received
	return 0
}

func installInto(bin string) error {
	if err := os.MkdirAll(filepath.Join(bin, pathFolder), 0o755); err != nil {
		return err
	}
	if err := copySelf(filepath.Join(bin, "launch")); err != nil {
		return err
	}
	links := map[string]string{"gate": "launch", "reach": "launch", pathFolder + "/ditask": "../launch"}
	for name, target := range links {
		if err := link(target, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	return copyFolder(filepath.Join(filepath.Dir(own), pythonFolder), filepath.Join(bin, pythonFolder))
}

// copyFolder copies a directory of the image into the volume. An existing one is complete, because it was renamed into place,
// and it is from the same image, so nothing is copied then.
func copyFolder(source, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	fresh := path + ".new"
	os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, os.DirFS(source)); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// link creates a symbolic link, or replaces an existing one.
func link(target, path string) error {
	fresh := path + ".new"
	os.Remove(fresh)
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// copySelf copies this program. It reads /proc/self/exe, so it does not depend on the image's paths.
func copySelf(path string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	fresh := path + ".new"
	os.Remove(fresh)
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// firstLine returns the first line of a file; "" if it cannot be read. It reads at most 4 KiB, more than the kernel reads for
// `#!` (256 bytes), because the file may be a large binary.
func firstLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, 4096))
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// read returns the content of a file without trailing newlines; "" if it cannot be read.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\n")
}
