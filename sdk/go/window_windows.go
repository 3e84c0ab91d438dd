package licensing

import (
	"os/exec"
	"syscall"
)

// hideWindow: a command of a product without a console would show one for a moment.
func hideWindow(of *exec.Cmd) {
	of.SysProcAttr = &syscall.SysProcAttr{HideWindow: true}
}
