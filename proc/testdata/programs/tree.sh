# A tree of shells, pipelines and background jobs.
set -o pipefail
trap 'echo trapped' USR1
for i in $(seq 1 25); do
  x=$(seq 1 $((i * 100)) | awk '{ s += $1 } END { print s }' | cat)
  ( echo "step $i $x" | tee /dev/null )
  sleep 0.02 & wait $!
  [ $i != 20 ] || until [ -e "$GO_ON" ]; do sleep 0.02 & wait $!; done
done
kill -USR1 $$
exit 3
