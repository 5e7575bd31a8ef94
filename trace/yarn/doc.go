// Package yarn reads what YARN keeps of applications and containers: answers of its REST
// APIs, and logs of the ResourceManager.
package yarn
