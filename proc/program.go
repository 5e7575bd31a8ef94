package proc

// Program returns the path of headrace-shim from which tasks are run. Every user may
// execute it.
func (r *Runtime) Program() (string, error) { return r.installShim() }
