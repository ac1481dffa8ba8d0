package main

import (
	"errors"
	"io/fs"
	"syscall"
)

// Codes of an error frame; exceptions.py turns each into its own exception.
const (
	codeNotFound     = "not_found"
	codeNotPermitted = "not_permitted"
	codeIsDirectory  = "is_directory"
	codeNotRegular   = "not_regular"
	codeTooLarge     = "too_large"
	codeNoSpace      = "no_space"
	codeBusy         = "busy"
	codeInvalid      = "invalid"
	codeIO           = "io"
)

// failure is an error whose code the client may act upon.
type failure struct {
	code    string
	message string
}

func (f *failure) Error() string { return f.message }

var errnoCodes = map[syscall.Errno]string{
	syscall.ENOENT:       codeNotFound,
	syscall.ENOTDIR:      codeNotFound,
	syscall.EACCES:       codeNotPermitted,
	syscall.EPERM:        codeNotPermitted,
	syscall.EROFS:        codeNotPermitted,
	syscall.EISDIR:       codeIsDirectory,
	syscall.E2BIG:        codeTooLarge,
	syscall.EFBIG:        codeTooLarge,
	syscall.ENAMETOOLONG: codeInvalid,
	syscall.EINVAL:       codeInvalid,
	syscall.ELOOP:        codeInvalid,
	syscall.ENOSPC:       codeNoSpace,
	syscall.EDQUOT:       codeNoSpace,
	syscall.EAGAIN:       codeBusy,
	syscall.ENOMEM:       codeBusy,
	syscall.EMFILE:       codeBusy,
	syscall.ENFILE:       codeBusy,
}

// asFailure gives any error a code. The path of a fs.PathError is left out:
// the client knows what it asked for, and names may hold any bytes.
func asFailure(err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	message := err.Error()
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		message = pathError.Op + ": " + pathError.Err.Error()
	}
	code := codeIO
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if known, ok := errnoCodes[errno]; ok {
			code = known
		}
	}
	return &failure{code, message}
}
