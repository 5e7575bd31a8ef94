// Package yarn knows what YARN calls things, as far as a container's command and
// environment show it: which variables differ between a launch and its relaunch, where a
// NodeManager puts files that it has localized, and which directories belong to an
// application. It talks to no daemon of YARN.
//
// # Keys
//
// [Launch.Key] is a hash of what a launch and its relaunch have in common. It leaves
// out what YARN makes different for each container. Of DistributedShell that includes
// YARN_SHELL_ID, its count of the containers that it was ever given: a relaunched
// container has a new one. So all containers of such an application have one key, and
// each may be given the checkpoint of any other. The restored processes keep the
// environment that they had.
package yarn
