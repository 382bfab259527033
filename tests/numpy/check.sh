#!/bin/sh
# check.py with a Python that has NumPy; 77 where there is none.
#
#     check.sh PHOBOSC
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && exec "$python" "$(dirname "$0")/check.py" "$1"
done
echo "no NumPy"
exit 77
