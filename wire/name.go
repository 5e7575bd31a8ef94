package wire

import (
	"fmt"
	"strings"
)

// MaxName is how many bytes the name of a node or of a container has at most.
const MaxName = 255

// CheckName refuses what is no name of a node or a container; what is one of them.
func CheckName(what, name string) error {
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r))
	})
	if name == "" || len(name) > MaxName || odd {
		return fmt.Errorf("%.80q is not the name of a %s; give letters, digits, - _ . and :, at most %d", name, what, MaxName)
	}
	return nil
}
