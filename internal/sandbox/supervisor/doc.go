// Package supervisor is the process between the daemon and one command: it
// starts the command, waits for it, ends what the command leaves behind, and
// reports. A program that imports it becomes one when it is started under Name.
// It exists on Linux only.
//
// It imports next to nothing, so that a supervisor starts fast; see init.
package supervisor
