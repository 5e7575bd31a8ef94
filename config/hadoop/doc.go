// Package hadoop reads Hadoop's configuration files, such as core-site.xml and
// hdfs-site.xml, as Hadoop's own Configuration does: later files override earlier ones
// unless a property is final, other files are included, and ${NAME} in a value stands for
// the value of another property. What only the daemon's own process knows, its system
// properties and its environment, is not guessed: a value that needs it is an error.
package hadoop
