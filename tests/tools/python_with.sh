#!/bin/sh
# A Python that has the module, which the first on the PATH may not: python_with.sh MODULE SCRIPT [ARGUMENT...]. 77 where there is none.
module=$1
shift
for python in python3 /usr/bin/python3; do
    "$python" -c "import $module" 2>/dev/null && exec "$python" "$@"
done
echo "no Python with $module"
exit 77
