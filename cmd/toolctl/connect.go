package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/toold/toold/client"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

const (
	defaultAddress = "127.0.0.1:7433"
	socketName     = "toold.sock"

	// defaultTimeout bounds what answers at once.
	defaultTimeout = 30 * time.Second
	// giveUpAfter is how long a batch is looked for when the daemon is gone.
	giveUpAfter = time.Minute
	// reachTimeout bounds the first contact.
	reachTimeout = 5 * time.Second
)

// target says where toold is: the address given, else the socket in the data
// folder, else the default address. A data folder that was named must have the
// socket: another daemon is not what was asked for.
func (a *app) target() (string, error) {
	if a.address != "" {
		return a.address, checkAddress(a.address)
	}
	dir, named := a.dataDir, a.dataDir != ""
	if !named {
		if dir = defaultDataDir(a.getenv); dir == "" {
			return defaultAddress, nil
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", usage(fmt.Errorf("--data-dir: %w", err))
	}
	socket := filepath.Join(dir, socketName)
	_, err = os.Stat(socket)
	switch {
	case err == nil:
		return "unix://" + socket, nil
	case named && errors.Is(err, fs.ErrNotExist):
		return "", &exitError{exitService, fmt.Errorf("no %s in %s: no daemon has its data there\n  start it with: toold --data-dir %s\n  or say where it is: --address HOST:PORT", socketName, dir, dir)}
	case named:
		return "", usage(fmt.Errorf("--data-dir: %w", err))
	}
	return defaultAddress, nil
}

// checkAddress refuses what gRPC would take for something else: it reads a web
// address as a name, and adds port 443 where there is none.
func checkAddress(address string) error {
	const want = "want HOST:PORT, such as " + defaultAddress + ", or unix:///path/" + socketName
	scheme, _, is := strings.Cut(address, "://")
	switch {
	case scheme == "http" || scheme == "https":
		return usage(fmt.Errorf("--address %s: it is no web address; %s", address, want))
	case is || filepath.IsAbs(address) || strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "dns:"):
		return nil
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return usage(fmt.Errorf("--address %s: there is no port; %s", address, want))
	}
	return nil
}

// defaultDataDir is toold's data folder by the XDG rules; "" when there is no
// home.
func defaultDataDir(getenv func(string) string) string {
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toold")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "toold")
	}
	return ""
}

// dial prepares the connection. Calls fail at once when toold is not there.
func (a *app) dial() (*client.Client, error) {
	target, err := a.target()
	if err != nil {
		return nil, err
	}
	a.address = target // what messages name
	c, err := client.Dial(target, grpc.WithDefaultCallOptions(grpc.WaitForReady(false)))
	if err != nil {
		return nil, usage(err)
	}
	c.GiveUpAfter = giveUpAfter
	return c, nil
}

// reach dials for something long, once toold has shown that it answers: what
// follows a batch would look for it for a while.
func (a *app) reach(ctx context.Context, use func(*client.Client) error) error {
	c, err := a.dial()
	if err != nil {
		return err
	}
	hello, cancel := context.WithTimeout(ctx, reachTimeout)
	_, err = tooldv1.NewAdminServiceClient(c.Conn()).GetServerInfo(hello, &tooldv1.GetServerInfoRequest{})
	cancel()
	if err == nil {
		err = use(c)
	}
	return errors.Join(err, c.Close())
}

// ask dials for one short exchange under the timeout.
func (a *app) ask(ctx context.Context, exchange func(context.Context, *client.Client) error) error {
	c, err := a.dial()
	if err != nil {
		return err
	}
	limit := a.timeout
	if limit == 0 {
		limit = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return errors.Join(exchange(ctx, c), c.Close())
}
