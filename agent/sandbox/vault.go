package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// The Secret of a vault is mounted at <vault>/data, one file a key. Kubernetes
// swaps the link ..data there when the Secret changes, so every command reads
// the directory anew.
//
// These two variables of serve say what becomes of the keys.
const (
	vaultEnvVariable   = "MIKAN_VAULT_ENV"   // comma list of keys, or * for all that can be variables (the default)
	vaultFilesVariable = "MIKAN_VAULT_FILES" // JSON list of {"key", "path", "mode"}
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// vault gives commands their credentials. It never logs a value.
type vault struct {
	data  string // directory of the keys
	home  string
	names map[string]bool // nil = every key that can be a variable
	files []vaultFile

	mu   sync.Mutex
	said map[string]bool // complaints already logged
}

type vaultFile struct {
	Key  string `json:"key"`
	Path string `json:"path"`
	Mode any    `json:"mode"` // set by the Secret's mount; here only so that one list serves both
}

func newVault(directory, home string, lookup func(string) (string, bool)) (*vault, error) {
	v := &vault{data: filepath.Join(directory, "data"), home: home, said: map[string]bool{}}
	if list, ok := lookup(vaultEnvVariable); ok && strings.TrimSpace(list) != "*" {
		v.names = map[string]bool{}
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				v.names[name] = true
			}
		}
	}
	if list, ok := lookup(vaultFilesVariable); ok && strings.TrimSpace(list) != "" {
		if err := json.Unmarshal([]byte(list), &v.files); err != nil {
			return nil, fmt.Errorf("%s: %w", vaultFilesVariable, err)
		}
	}
	for i, file := range v.files {
		path, err := homePath(home, file.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", vaultFilesVariable, file.Key, err)
		}
		if !isKey(file.Key) {
			return nil, fmt.Errorf("%s: %q is not a Secret key", vaultFilesVariable, file.Key)
		}
		v.files[i].Path = path
	}
	return v, nil
}

// isKey tells whether a name is one file of the mounted directory.
func isKey(name string) bool {
	return name != "" && !strings.HasPrefix(name, "..") && name != "." && !strings.ContainsAny(name, "/\x00")
}

// homePath turns a path of the list into one relative to home, or refuses it.
func homePath(home, path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = rest
	} else if filepath.IsAbs(path) {
		relative, err := filepath.Rel(home, path)
		if err != nil {
			return "", err
		}
		path = relative
	}
	if !filepath.IsLocal(path) || filepath.Clean(path) == "." {
		return "", errors.New("the path is not inside the home directory")
	}
	return filepath.Clean(path), nil
}

// load returns the variables as the Secret has them now, and sees to the links.
func (v *vault) load() map[string]string {
	v.link()
	for range 3 {
		variables, err := v.read()
		if err == nil {
			return variables
		}
		if !errors.Is(err, fs.ErrNotExist) { // else it was swapped while we read
			v.complain("vault: %v", err)
			return nil
		}
	}
	return nil
}

// read takes all values from one generation of the mount.
func (v *vault) read() (map[string]string, error) {
	directory := v.data
	if generation, err := os.Readlink(filepath.Join(v.data, "..data")); err == nil {
		directory = filepath.Join(v.data, generation)
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	variables := map[string]string{}
	for _, entry := range entries {
		name := entry.Name()
		if !v.wanted(name) {
			continue
		}
		value, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			return nil, err
		}
		switch {
		case bytes.IndexByte(value, 0) >= 0:
			v.complain("vault: key %q holds a NUL byte and can't be a variable", name)
		case len(name)+len(value)+2 > maxArgument:
			v.complain("vault: key %q is too large to be a variable", name)
		default:
			variables[name] = string(value)
		}
	}
	return variables, nil
}

func (v *vault) wanted(name string) bool {
	if !variableName.MatchString(name) {
		return false
	}
	if v.names != nil && !v.names[name] {
		return false
	}
	if strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "MIKAN_") {
		v.complain("vault: key %q is refused as a variable", name)
		return false
	}
	return true
}

// link puts a link to each file's key into the home directory.
func (v *vault) link() {
	if len(v.files) == 0 {
		return
	}
	root, err := os.OpenRoot(v.home)
	if err != nil {
		v.complain("vault: home directory: %v", err)
		return
	}
	defer root.Close()
	for _, file := range v.files {
		if err := v.linkOne(root, file); err != nil {
			v.complain("vault: key %q at %q: %v", file.Key, file.Path, err)
		}
	}
}

// linkOne walks down from home without following any link: commands may have
// put one there.
func (v *vault) linkOne(root *os.Root, file vaultFile) error {
	target := filepath.Join(v.data, file.Key)
	segments := strings.Split(file.Path, "/")
	parents, name := segments[:len(segments)-1], segments[len(segments)-1]
	for _, segment := range parents {
		next, err := enter(root, segment)
		if err != nil {
			return err
		}
		defer next.Close()
		root = next
	}
	if existing, err := root.Readlink(name); err == nil {
		if existing == target {
			return nil
		}
		return errors.New("another link is there; left alone")
	}
	err := root.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) {
		return errors.New("another file is there; left alone")
	}
	return err
}

func enter(root *os.Root, segment string) (*os.Root, error) {
	info, err := root.Lstat(segment)
	if errors.Is(err, fs.ErrNotExist) {
		if err = root.Mkdir(segment, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = root.Lstat(segment)
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a directory", segment)
	}
	return root.OpenRoot(segment)
}

// complain logs each thing once, not with every command.
func (v *vault) complain(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.said[message] {
		v.said[message] = true
		log.Print(message)
	}
}
