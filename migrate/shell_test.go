package migrate

import "os/exec"

func shell(script string) ([]byte, error) { return exec.Command("sh", "-c", script).CombinedOutput() }
