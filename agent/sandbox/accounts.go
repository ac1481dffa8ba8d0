package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// writeAccounts writes copies of the image's passwd and group that have an
// entry for our uid and gid: ssh and others refuse a user without a name. They
// are meant to be mounted over the image's own.
func writeAccounts(directory, home string) error {
	uid, gid := os.Getuid(), os.Getgid()
	user := fmt.Sprintf("mikan:x:%d:%d:mikan:%s:/bin/sh", uid, gid, home)
	if err := writeAccount("/etc/passwd", filepath.Join(directory, "passwd"), uid, user); err != nil {
		return err
	}
	return writeAccount("/etc/group", filepath.Join(directory, "group"), gid, fmt.Sprintf("mikan:x:%d:", gid))
}

func writeAccount(source, target string, id int, entry string) error {
	text, err := os.ReadFile(source)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return replaceFile(target, 0o644, strings.NewReader(withEntry(string(text), id, entry)))
}

// withEntry appends the entry unless the third field of some line is the id.
func withEntry(text string, id int, entry string) string {
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ":")
		if len(fields) > 2 && fields[2] == strconv.Itoa(id) {
			return text
		}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + entry + "\n"
}
