// Package alibaba reads the batch jobs of a trace of Alibaba's (cluster-trace-v2018). See docs/traces.md.
package alibaba
