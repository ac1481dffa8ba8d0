package main

import (
	"io"
	"net"
	"os"
)

// connect joins two byte streams to the socket of serve. The end of input is
// passed on by half: what serve still has to say arrives before we return.
func connect(socket string, in io.Reader, out io.Writer) error {
	shield()
	stream, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	defer stream.Close()
	go func() {
		_, err := io.CopyBuffer(onlyWriter{stream}, in, make([]byte, 256<<10))
		if err == nil {
			err = stream.CloseWrite()
		}
		if err != nil {
			stream.Close() // ends the other direction too
		}
	}()
	_, err = io.CopyBuffer(onlyWriter{out}, onlyReader{stream}, make([]byte, 256<<10))
	return err
}

// The wrappers keep io.CopyBuffer to its buffer: the zero-copy paths of
// sockets and files move 64 KiB at a time and are slower here.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

// install copies this program into a directory that other containers mount.
func install(directory string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	return replaceFile(directory+"/mikan-sandbox", 0o755, source)
}

// replaceFile writes beside the target and renames, so that nobody ever sees
// half a file.
func replaceFile(target string, mode os.FileMode, source io.Reader) error {
	part := target + "." + randomHex(4) + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	if err == nil {
		err = file.Chmod(mode)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(part, target)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}
