set terminal dumb size 100,32 noenhanced mono
set output '/dev/stdout'
set palette defined (0 '#440154', 1 '#482878', 2 '#3e4989', 3 '#31688e', 4 '#26828e', 5 '#1f9e89', 6 '#35b779', 7 '#6ece58', 8 '#b5de2b', 9 '#fde725')
set encoding utf8
set border linecolor rgb '#444444'
set title 'Similarity of positions: base 10000, unscaled'
set xlabel 'position'
unset logscale x
set format x '%g'
set xrange [*:*]
set ylabel 'position'
unset logscale y
set format y '%g'
set yrange [*:*]
set size ratio -1
set xtics ('0' 0, '1' 1, '2' 2) nomirror out
set ytics ('0' 0, '1' 1, '2' 2) nomirror out
unset grid
set xrange [-0.5:2.5]
set yrange [2.5:-0.5]
unset colorbox
set title 'Similarity of positions: base 10000, unscaled  (cosine similarity: '' '' 0.292 to ''@'' 1)'
$cells << EOD
0 0 "@"
1 0 "*"
2 0 " "
0 1 "*"
1 1 "@"
2 1 "*"
0 2 " "
1 2 "*"
2 2 "@"
EOD
plot $cells using 1:2:3 with labels notitle
unset label
unset output
