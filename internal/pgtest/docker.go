package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	localImage    = "toold-test/postgres:local" // made by scripts/postgres-image.sh
	officialImage = "postgres:16-alpine"
	pullTimeout   = 2 * time.Minute
)

// docker is a server in a container.
type docker struct {
	client   *client.Client
	name     string
	password string
	host     string
	port     int // kept over restarts
}

func startContainer(ctx context.Context, inMemory bool) (*docker, *watchdog, error) {
	cli, host, err := dockerClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	image, err := findImage(ctx, cli)
	if err != nil {
		return nil, nil, err
	}
	d := &docker{client: cli, name: "toold-pg-" + uuid.NewString()[:8], password: uuid.NewString()}
	watch, err := startWatchdog("docker", d.name)
	if err != nil {
		return nil, nil, err
	}
	if err := d.run(ctx, image, host, inMemory); err != nil {
		return nil, nil, errors.Join(err, watch.release())
	}
	return d, watch, nil
}

// dockerClient fails when no engine answers. host is where the ports of its
// containers are: "localhost", except from within a container or for an engine
// elsewhere.
func dockerClient(ctx context.Context) (cli *client.Client, host string, err error) {
	// The watchdog does what the reaper would, without an image to pull. The
	// setting is read once, at the first use of the library.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, "", err
	}
	log.SetDefault(log.NewNoopLogger())
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, "", fmt.Errorf("finding Docker: %w", err)
	}
	defer provider.Close()
	if host, err = provider.DaemonHost(ctx); err != nil {
		return nil, "", fmt.Errorf("asking Docker: %w", err)
	}
	connected, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("connecting to Docker: %w", err)
	}
	if _, err := connected.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, "", fmt.Errorf("asking Docker: %w", err)
	}
	return connected.Client, host, nil
}

// findImage gives an image that is there, or gets one: made of the machine's own
// binaries where it has them, else pulled.
func findImage(ctx context.Context, cli *client.Client) (string, error) {
	if image := os.Getenv("TOOLD_TEST_POSTGRES_IMAGE"); image != "" {
		return image, nil
	}
	for _, image := range []string{localImage, officialImage} {
		if _, err := cli.ImageInspect(ctx, image); err == nil {
			return image, nil
		}
	}
	buildErr := buildImage(ctx)
	if buildErr == nil {
		return localImage, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	pull, err := cli.ImagePull(ctx, officialImage, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("no image of Postgres: %w; pulling %s: %w", buildErr, officialImage, err)
	}
	return officialImage, nil
}

func buildImage(ctx context.Context) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	script := filepath.Join(root, "scripts", "postgres-image.sh")
	if out, err := exec.CommandContext(ctx, script).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(script), err, bytes.TrimSpace(out))
	}
	return nil
}

// moduleRoot is the nearest folder above the current one that has our go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("not inside the toold module")
}

// run starts the container on a port of our choice, since one that the engine
// chose would change with a restart.
func (d *docker) run(ctx context.Context, image, host string, inMemory bool) error {
	var err error
	if d.port, err = freePort(); err != nil {
		return err
	}
	inside, err := network.ParsePort("5432/tcp")
	if err != nil {
		return err
	}
	// What looks like a container may have the engine inside: both the loopback
	// and the address that the library found are tried.
	hosts := []string{"127.0.0.1"}
	binding := network.PortBinding{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(d.port)}
	if host != "localhost" {
		hosts = append(hosts, host)
		binding.HostIP = netip.IPv4Unspecified()
	}
	// The module's own command has fsync off, which toold refuses.
	_, err = postgres.Run(ctx, image,
		testcontainers.WithName(d.name),
		postgres.WithPassword(d.password),
		testcontainers.WithCmd("postgres", "-c", "max_connections=200", "-c", "max_wal_size=256MB"),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = network.PortMap{inside: {binding}}
			if inMemory {
				host.Tmpfs = map[string]string{"/var/lib/postgresql/data": "rw"}
			}
		}),
		testcontainers.WithWaitStrategy(wait.ForLog(readyLine).WithOccurrence(2)))
	if err != nil {
		return fmt.Errorf("running %s: %w", image, err)
	}
	return d.find(ctx, hosts)
}

// readyLine is logged by the server of the first start's preparation, and again
// by the one that stays.
const readyLine = "database system is ready to accept connections"

// find settles on the first of hosts where the server answers.
func (d *docker) find(ctx context.Context, hosts []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		host string
		err  error
	}
	answers := make(chan answer, len(hosts))
	for _, host := range hosts {
		go func() { answers <- answer{host, awaitReady(ctx, d.at(host))} }()
	}
	var failed error
	for range hosts {
		a := <-answers
		if a.err == nil {
			d.host = a.host
			return nil
		}
		failed = errors.Join(failed, a.err)
	}
	return failed
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (d *docker) url() url.URL { return d.at(d.host) }

func (d *docker) at(host string) url.URL {
	return url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", d.password),
		Host:     net.JoinHostPort(host, strconv.Itoa(d.port)),
		RawQuery: "sslmode=disable",
	}
}

func (d *docker) kill(ctx context.Context) error {
	wait := d.client.ContainerWait(ctx, d.name, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	if _, err := d.client.ContainerKill(ctx, d.name, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		return err
	}
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return err
	}
}

func (d *docker) restart(ctx context.Context) error {
	if _, err := d.client.ContainerStart(ctx, d.name, client.ContainerStartOptions{}); err != nil {
		return err
	}
	return awaitReady(ctx, d.url())
}
