// Command toolctl is toold's command line: it runs calls and batches, shows what
// was decided and what came of it, and reads back whole outputs.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], newScreen(os.Stdin, os.Stdout, os.Stderr, os.Getenv)))
}
