package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// binFolder is the folder of these programs, an emptyDir (operator/dijob/pod.py).
func binFolder() string { return variable("DIJOB_BIN_DIR", "/run/dijob/bin") }

// Beside the programs: what DI-engine is told in each Python process (images/dijob-runtime), and what comes first in PATH.
// The programs' own folder does not: it would hide the image's programs of these names.
const (
	pythonFolder = "python"
	pathFolder   = "path"
)

// podFolder has the files that the kubelet makes from the pod's annotations, a downwardAPI volume (operator/dijob/pod.py).
// It is found by the program's own place and not by the environment, which the image and envFrom can set.
var podFolder = filepath.Join(filepath.Dir(binFolderOf(os.Args[0])), "pod")

// install puts this program into the volume under all its names. Each is renamed into place, so that a second run (the
// sandbox is made anew, the volume stays) never leaves half a file, and a program that runs is not written to.
func install([]string) int {
	syscall.Umask(0o022) // the main container may run as another user
	bin := binFolder()
	if err := installInto(bin); err != nil {
		say("cannot write %s: it must be an emptyDir that this user can write to: %v", bin, err)
		return 1
	}
	return 0
}

// hold waits for the signal that ends its container. Nothing wakes it before.
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

// copyFolder puts a folder of the image into the volume; one that is there already is of the same image.
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

func link(target, path string) error {
	fresh := path + ".new"
	os.Remove(fresh)
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

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

// firstLine returns the first line of a file, of which it reads as much as the kernel does for `#!` and a little more.
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

// read returns what a file says now, without the newline at its end; "" where it is not there.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\n")
}
