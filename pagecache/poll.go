package pagecache

// pollGroup is how many blocks are asked about at once where little is in memory.
const pollGroup = 64

// poll asks the kernel what is in memory of the file. What is all or nothing in
// memory takes one question, else there is one for each block. The kernel looks
// at every folio that is there, about 30 ns each.
func (f *file) poll() error {
	if f.resident > f.size/4 && f.resident < f.size {
		return f.pollEach(0, len(f.blocks)) // it will be partly in memory again
	}
	done, err := f.pollAlike(0, len(f.blocks))
	if done || err != nil {
		return err
	}
	for i := 0; i < len(f.blocks); i += pollGroup {
		end := min(i+pollGroup, len(f.blocks))
		if done, err = f.pollAlike(i, end); err == nil && !done {
			err = f.pollEach(i, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pollAlike asks about some blocks at once. done is false if more has to be asked.
func (f *file) pollAlike(from, to int) (done bool, err error) {
	if from == to {
		return true, nil
	}
	length := wholePages(Range{0, int64(to-1-from)*BlockSize + f.blockBytes(to-1)}).Len
	pages, err := f.cached(f.fd, int64(from)*BlockSize, length)
	if err != nil || to-from > 1 && pages > 0 && pages*pageSize < length {
		return false, err
	}
	for i := from; i < to; i++ {
		f.set(i, pages) // cut to what the block has
	}
	return true, nil
}

func (f *file) pollEach(from, to int) error {
	for i := from; i < to; i++ {
		if _, err := f.pollAlike(i, i+1); err != nil {
			return err
		}
	}
	return nil
}
