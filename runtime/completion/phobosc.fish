# Completion in fish for phobosc, and for executables that it makes: complete -c add -a '(__phobos_complete)'
# What there is to complete is what --help says.
function __phobos_complete
    set -l command (commandline -opc)[1]
    set -l current (commandline -ct)
    set -l help ($command --help 2>/dev/null)
    if string match -qr -- '^--.*=' $current
        set -l option (string split -m1 = -- $current)[1]
        if test $option = --emit
            printf '%s\n' $help | sed -n '/^kinds of output:/,/^$/s/^  \([^ ]*\) .*/\1/p' | sed "s/^/$option=/"
        else
            printf '%s\n' $help | sed -n "s/^ *$option\[\{0,1\}=\([^] ]*|[^] ]*\).*/\1/p" | string split '|' | sed "s/^/$option=/"
        end
    else if string match -q -- '-*' $current
        printf '%s\n' $help | sed -n 's/^ *\(--\{0,1\}[A-Za-z][A-Za-z-]*=\{0,1\}\).*/\1/p' | sort -u
    end
end

complete -c phobosc -a '(__phobos_complete)'
