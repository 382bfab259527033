# Completion in bash for phobosc, and for executables that it makes: phobos_complete add
# What there is to complete is what --help says.

# Choices of an option, such as auto|always|never, or the names in the section of --help that lists them.
_phobos_values() {
    local help=$1 option=$2
    case $option in
    --emit) sed -n '/^kinds of output:/,/^$/s/^  \([^ ]*\) .*/\1/p' <<<"$help" ;;
    *) sed -n "s/^ *$option\[\{0,1\}=\([^] ]*|[^] ]*\).*/\1/p" <<<"$help" | tr '|' '\n' ;;
    esac
}

_phobos() {
    local command=$1 current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} option= help
    COMPREPLY=()
    # '=' is a word of its own.
    if [ "$current" = = ]; then
        option=$previous current=
    elif [ "$previous" = = ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $command in
    */*) ;;
    *) command=$(type -P "$command") || return ;;
    esac
    help=$("$command" --help 2>/dev/null)
    if [ -n "$option" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_phobos_values "$help" "$option")" -- "$current")
        [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $current == -W* ]]; then
        mapfile -t COMPREPLY < <(compgen -P -W -W "error all $(sed -n '/^warnings:/,/^$/s/^  \([^ ]*\) .*/\1/p' <<<"$help")" -- "${current#-W}")
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^ *\(--\{0,1\}[A-Za-z][A-Za-z-]*\)\(.*\)/\1\2/p' <<<"$help" | sed 's/^\(-[^ =[]*\)\(=\{0,1\}\).*/\1\2/' | sort -u)" -- "$current")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return 0
}

# phobos_complete NAME...: executables that phobosc made.
phobos_complete() {
    complete -o filenames -F _phobos "$@"
}

phobos_complete phobosc
