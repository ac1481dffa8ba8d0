package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const newFileMode = 0o644

// read sends (part of) a regular file; the done frame carries the count.
func (r *request) read(payload []byte) error {
	message, err := decode[readMessage](payload)
	if err != nil {
		return err
	}
	if message.Offset < 0 || (message.Limit != nil && *message.Limit < 0) {
		return &failure{codeInvalid, "negative offset or limit"}
	}
	file, info, err := openRegular(r.conn.settings.absolute(string(message.Path)))
	if err != nil {
		return err
	}
	defer file.Close()
	if message.Offset > 0 {
		if _, err := file.Seek(message.Offset, io.SeekStart); err != nil {
			return err
		}
	}
	var source io.Reader = file
	if message.Limit != nil {
		source = io.LimitReader(file, *message.Limit)
	}
	done := describeFile(info)
	buffer := make([]byte, headerSize+chunkSize)
	for {
		n, err := source.Read(buffer[headerSize:])
		if n > 0 {
			if err := r.out.take(n); err != nil {
				return err
			}
			if err := r.conn.sendInPlace(kindData, r.id, buffer[:headerSize+n]); err != nil {
				return err
			}
			done.Bytes += int64(n)
		}
		if err == io.EOF {
			return r.conn.send(kindDone, r.id, encode(done))
		}
		if err != nil {
			return err
		}
	}
}

// openRegular never waits, whatever stands at the path: a FIFO without a
// writer would block a plain open for ever.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func checkRegular(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return &failure{codeIsDirectory, "it is a directory"}
	case !info.Mode().IsRegular():
		return &failure{codeNotRegular, "it is not a regular file"}
	}
	return nil
}

func (r *request) stat(payload []byte) error {
	message, err := decode[statMessage](payload)
	if err != nil {
		return err
	}
	look := os.Lstat
	if message.Follow {
		look = os.Stat
	}
	info, err := look(r.conn.settings.absolute(string(message.Path)))
	if err != nil {
		return err
	}
	return r.conn.send(kindDone, r.id, encode(describeFile(info)))
}

func describeFile(info os.FileInfo) doneMessage {
	kind := "other"
	switch {
	case info.Mode().IsRegular():
		kind = "file"
	case info.IsDir():
		kind = "directory"
	case info.Mode()&os.ModeSymlink != 0:
		kind = "link"
	}
	return doneMessage{
		Type: kind, Size: info.Size(), Mode: uint32(info.Mode().Perm()), MtimeNs: info.ModTime().UnixNano(),
	}
}

// write receives a whole file and puts it in place by rename, so that until
// the commit, and after an abort, the target is what it was.
func (r *request) write(payload []byte) error {
	message, err := decode[writeMessage](payload)
	if err != nil {
		return err
	}
	stage, err := newStage(r.conn.settings.absolute(string(message.Path)), message)
	if err != nil {
		return err
	}
	defer stage.discard()
	var received int64
	for {
		chunk, err := r.in.next()
		if err != nil {
			return err
		}
		if chunk == nil {
			break
		}
		if _, err := stage.file.Write(chunk); err != nil {
			return err
		}
		received += int64(len(chunk))
		if err := r.grant(len(chunk)); err != nil {
			return err
		}
	}
	select {
	case commit := <-r.commit:
		if commit.Bytes != received {
			return &failure{codeIO, "received another number of bytes than were sent"}
		}
	default:
		return &failure{codeInvalid, "input ended without a commit"}
	}
	if err := stage.commit(); err != nil {
		return err
	}
	return r.conn.send(kindDone, r.id, encode(doneMessage{Bytes: received, Size: received, Type: "file", Mode: stage.mode}))
}

// stage is a file beside its target that becomes it.
type stage struct {
	file   *os.File
	target string
	mode   uint32
	done   bool
}

func newStage(path string, message writeMessage) (*stage, error) {
	if strings.HasSuffix(path, "/") {
		return nil, &failure{codeIsDirectory, "the path names a directory"}
	}
	target, err := followLinks(path)
	if err != nil {
		return nil, err
	}
	s := &stage{target: target, mode: newFileMode}
	if info, err := os.Stat(target); err == nil {
		if err := checkRegular(info); err != nil {
			return nil, err
		}
		s.mode = uint32(info.Mode().Perm())
	}
	if message.Mode != nil {
		s.mode = *message.Mode & 0o777
	}
	directory := filepath.Dir(target)
	if message.Parents {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return nil, err
		}
	}
	// Not derived from the target's name, which may already be as long as names can be.
	name := filepath.Join(directory, ".mikan-"+randomHex(8)+".part")
	s.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	return s, err
}

// followLinks resolves a link at the end of the path, dangling ones too: the
// write goes to what the link names, as a shell's redirection would.
func followLinks(path string) (string, error) {
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link, or not there: the open will tell
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", syscall.ELOOP
}

func (s *stage) commit() error {
	if err := s.file.Chmod(os.FileMode(s.mode)); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(s.file.Name(), s.target); err != nil {
		return err
	}
	s.done = true
	directory, err := os.Open(filepath.Dir(s.target))
	if err != nil {
		return nil // search-only directory: the rename itself has happened
	}
	defer directory.Close()
	if err := directory.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // not every filesystem syncs directories
		return err
	}
	return nil
}

func (s *stage) discard() {
	s.file.Close()
	if !s.done {
		os.Remove(s.file.Name())
	}
}
