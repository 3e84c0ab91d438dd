//go:build !windows

package licensing

import "os/exec"

func hideWindow(*exec.Cmd) {}
