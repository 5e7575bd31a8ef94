// Package image reads CRIU's image files, and writes changed copies of them.
//
// An image file is a magic number or two, then messages, each after its length
// (CRIU's images/*.proto and criu/include/magic.h). This package knows no schema:
// a [Message] is the list of its fields as they stand in the file, so that what
// nobody has touched is written back byte for byte, fields of newer versions of
// CRIU included. The field numbers that Headrace needs are in fields.go.
//
// Stored images are never altered: their checksums are checked before each
// restore. A [Dir] shows an image under another path, with some files replaced:
//
//	d, err := image.NewDir(dir, stored) // links to the files of the image
//	f, err := image.Read(filepath.Join(dir, "files.img"))
//	for i, e := range f.Entries { ... f.Entries[i] = e.SetUint(...) ... }
//	err = d.Replace("files.img", f)     // from now on a file of d's own
//	... criu restore -D dir ...
//	err = d.Remove()
package image
