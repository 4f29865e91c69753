// Package install copies the launcher into the pod's volume.
package install

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"dijob-launcher/internal/env"
)

// Run copies this program into the volume and creates its other names. Each file is renamed into place, so that install never
// leaves half a file and never writes to a running program. In a new sandbox of the pod, install runs again, and the volume
// still has the files.
func Run([]string) int {
	syscall.Umask(0o022) // the main container may run as another user
	bin := env.BinFolder()
	if err := installInto(bin); err != nil {
		env.Logf("cannot write %s: it must be an emptyDir that this user can write to: %v", bin, err)
		return 1
	}
	return 0
}

func installInto(bin string) error {
	if err := os.MkdirAll(filepath.Join(bin, env.PathFolder), 0o755); err != nil {
		return err
	}
	if err := copySelf(filepath.Join(bin, "launch")); err != nil {
		return err
	}
	links := map[string]string{"gate": "launch", "reach": "launch", env.PathFolder + "/ditask": "../launch"}
	for name, target := range links {
		if err := env.Link(target, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	return copyFolder(filepath.Join(filepath.Dir(own), env.PythonFolder), filepath.Join(bin, env.PythonFolder))
}

// copyFolder copies a directory of the image into the volume. If the directory exists, nothing is copied: it is complete,
// because it was renamed into place, and it is from the same image.
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
