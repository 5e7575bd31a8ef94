package linux

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// SwapArea is one line of /proc/swaps, in bytes.
type SwapArea struct {
	Path, Kind string // "file" or "partition"
	Size, Used int64
}

// Swaps lists the swap in use; a kernel without swap has none.
func (p ProcFS) Swaps() ([]SwapArea, error) {
	text, err := os.ReadFile(p.path("swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return ParseSwaps(string(text)), err
}

// ParseSwaps reads the text of /proc/swaps. Lines that make no sense are left out.
func ParseSwaps(text string) []SwapArea {
	var areas []SwapArea
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		used, uerr := strconv.ParseInt(fields[3], 10, 64)
		const most = 1 << 50
		if err != nil || uerr != nil || size < 0 || used < 0 || size > most || used > most {
			continue
		}
		areas = append(areas, SwapArea{Path: Unescape(fields[0]), Kind: fields[1], Size: size << 10, Used: used << 10})
	}
	return areas
}
