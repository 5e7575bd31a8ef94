package pagecache

// DiskDir is diskDir for the tests outside of the package.
var DiskDir = diskDir
