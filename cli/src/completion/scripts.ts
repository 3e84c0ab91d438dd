/**
 * Each script passes the words of the command line to `licensing complete` and offers the words that it prints, one per line.
 * If it prints `:files`, the script offers the names of files.
 */
export const scripts = {
  bash: `_licensing() {
  local IFS=$'\\n'
  COMPREPLY=($(licensing complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ \${COMPREPLY[0]} == :files ]]; then
    COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _licensing licensing
`,
  zsh: `#compdef licensing
_licensing() {
  local -a found
  found=("\${(@f)$(licensing complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $found[1] == :files ]]; then
    _files
  else
    compadd -- $found
  fi
}
if [[ $funcstack[1] == _licensing ]]; then
  _licensing
else
  compdef _licensing licensing
fi
`,
  fish: `function __licensing_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found (licensing complete -- $words[2..-1] 2>/dev/null)
  if test "$found[1]" = :files
    __fish_complete_path (commandline -ct)
  else
    printf '%s\\n' $found
  end
end
complete -c licensing -f -a '(__licensing_complete)'
`,
} as const
