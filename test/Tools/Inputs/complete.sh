# complete.sh FILE LINE: what a completion of Bash offers at the end of a line.
compopt() { :; }
source "$1"
COMP_LINE=$2
COMP_POINT=${#COMP_LINE}
tool=${2%% *}
"_${tool//-/_}"
echo "${COMPREPLY[@]}"
