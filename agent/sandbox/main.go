// Command mikan-sandbox is the sandbox helper: the first process of a sandbox
// container, and the other end of the byte stream that the agent runs its
// commands over. PROTOCOL.md describes that stream.
//
// It is one static program with the standard library only, so that it runs in
// any image, whatever libc that image has or lacks.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"syscall"
)

// version names the build in --version and in the hello frame.
const version = "0.1.0"

// defaultSocket is in the abstract namespace: a command that runs with our own
// uid could unlink a socket file and put its own server there.
const defaultSocket = "@mikan-sandbox"

// terminated is how serve ends when it is told to, as a program without a handler would. Where all containers of a pod
// end with 0 the pod has succeeded, and the kubelet forgets why it ended it: an eviction, a node that goes down.
const terminated = 128 + int(syscall.SIGTERM)

const usage = `usage:
  mikan-sandbox install DIR        copy this program to DIR/mikan-sandbox
  mikan-sandbox passwd DIR         write DIR/passwd and DIR/group with an entry for this uid
  mikan-sandbox serve [options]    run commands for whoever connects
  mikan-sandbox connect [options]  join stdin and stdout to a running serve
  mikan-sandbox --version
`

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetPrefix("mikan-sandbox: ")
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := dispatch(os.Args[1], os.Args[2:]); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func dispatch(name string, args []string) error {
	switch name {
	case "--version", "version":
		fmt.Println("mikan-sandbox " + version)
		return nil
	case "install":
		return install(oneArgument(name, args))
	case "passwd":
		return writeAccounts(oneArgument(name, args), homeDefault())
	case "serve":
		return serveCommand(args)
	case "connect":
		flags := flag.NewFlagSet(name, flag.ExitOnError)
		socket := flags.String("socket", defaultSocket, "unix socket of serve; a leading @ means the abstract namespace")
		_ = flags.Parse(args) // ExitOnError: it does not return an error
		return connect(*socket, os.Stdin, os.Stdout)
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}

func serveCommand(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	socket := flags.String("socket", defaultSocket, "unix socket to listen on; a leading @ means the abstract namespace")
	vaultDir := flags.String("vault", "/mikan/vault", "directory whose data/ holds the vault, one file a key")
	home := flags.String("home", homeDefault(), "home directory of commands")
	workspace := flags.String("workspace", "/workspace", "working directory of commands that name none")
	_ = flags.Parse(args) // ExitOnError: it does not return an error
	vault, err := newVault(*vaultDir, *home, os.LookupEnv)
	if err != nil {
		return err
	}
	if err := serve(*socket, settings{vault: vault, home: *home, workspace: *workspace}); err != nil {
		return err
	}
	os.Exit(terminated)
	return nil
}

func homeDefault() string {
	if home := os.Getenv("HOME"); home != "" && home != "/" {
		return home
	}
	return "/home/mikan"
}

func oneArgument(name string, args []string) string {
	if len(args) != 1 {
		fmt.Fprintf(os.Stderr, "usage: mikan-sandbox %s DIR\n", name)
		os.Exit(2)
	}
	return args[0]
}
