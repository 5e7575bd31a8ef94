package meta

import "strings"

// Concat moves the blocks of files to the end of another in the same directory, and
// deletes the files.
type Concat struct {
	Target  string
	Sources []string
}

func (o *Concat) code(c *coder) { text(c, &o.Target); texts(c, &o.Sources) }

func (o *Concat) apply(s *state) (Result, error) {
	if err := s.awake("Cannot concat %s", o.Target); err != nil {
		return nil, err
	}
	if err := o.plain(); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Target, toWrite)
	if err == nil {
		err = s.permit(t, demands{last: Write})
	}
	if err != nil {
		return nil, err
	}
	n, err := t.file(o.Target)
	if err != nil {
		return nil, err
	}
	if n.File.Writer != nil {
		return nil, fail(classHadoopArgument, "concat: target file %s is under construction", o.Target)
	}
	sources, err := o.sources(s, n, t.path())
	if err != nil {
		return nil, err
	}
	dir := t.parent()
	moved := 0
	var more int64
	for _, from := range sources {
		moved += from.File.count()
		more += from.File.full() * (int64(n.File.Replication) - int64(from.File.Replication))
	}
	if moved > mostMoved && s.rules > version5 {
		return nil, fail(classHadoopArgument, "concat: the source files have %d blocks, more than %d: name fewer of them at once", moved, mostMoved)
	}
	if err := t.affords(usage{-int64(len(sources)), more}, nil); err != nil {
		return nil, err
	}
	for _, from := range sources {
		s.blocks(from, func(b *block) bool {
			s.addBlock(n, *b)
			s.ownLast(n)
			return true
		})
		s.unlink(dir, from, nil)
		s.forget(from)
	}
	n.Modified = s.now
	s.save(n)
	s.touch(dir, s.now)
	return nil, nil
}

func (o *Concat) plain() error {
	if o.Target == "" {
		return fail(classArgument, "Target file name is empty")
	}
	if len(o.Sources) == 0 {
		return fail(classArgument, "No sources given")
	}
	for _, p := range append([]string{o.Target}, o.Sources...) {
		if isRaw(p) || strings.HasPrefix(p, reservedPath+"/.inodes") {
			return fail(classIO, "Concat operation doesn't support %s relative path : %s", reserved, p)
		}
	}
	return nil
}

// sources checks the files to be moved (FSDirConcatOp.verifySrcFiles).
func (o *Concat) sources(s *state, target *inode, targetPath string) ([]*inode, error) {
	var all []*inode
	known := map[*inode]bool{}
	for _, path := range o.Sources {
		t, err := s.resolve(path, toWrite)
		if err == nil {
			err = s.permit(t, demands{last: Read})
		}
		if err == nil {
			err = s.permit(t, demands{parent: Write})
		}
		if err != nil {
			return nil, err
		}
		n, err := t.file(path)
		if err != nil {
			return nil, err
		}
		switch {
		case n.Parent != target.Parent:
			return nil, fail(classHadoopArgument, "Source file %s is not in the same directory with the target %s", path, targetPath)
		case n == target:
			return nil, fail(classHadoopArgument, "concat: the src file %s is the same with the target file %s", path, targetPath)
		case n.File.Writer != nil || n.File.count() == 0:
			return nil, fail(classHadoopArgument, "concat: source file %s is invalid or empty or underConstruction", path)
		case n.File.BlockSize > target.File.BlockSize:
			return nil, fail(classHadoopArgument, "concat: source file %s has preferred block size %d which is greater than the target file's preferred block size %d",
				path, n.File.BlockSize, target.File.BlockSize)
		}
		if !known[n] {
			all, known[n] = append(all, n), true
			n.XAttrs = nil // they go with the file, and might be far more than all the rest
		}
	}
	if len(all) < len(o.Sources) {
		return nil, fail(classHadoopArgument, "concat: at least two of the source files are the same")
	}
	return all, nil
}
