package disk

// At returns the device of a file by numbers, for tests without such a file.
func (d *Devices) At(id ID, mount int) (Device, bool) { return d.at(id, mount) }
