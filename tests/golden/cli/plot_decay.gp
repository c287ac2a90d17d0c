set terminal svg size 800,520 font 'sans-serif,14' background '#ffffff' linewidth 1.5 noenhanced
set output 'it''s.svg'
set palette defined (0 '#440154', 1 '#482878', 2 '#3e4989', 3 '#31688e', 4 '#26828e', 5 '#1f9e89', 6 '#35b779', 7 '#6ece58', 8 '#b5de2b', 9 '#fde725')
set encoding utf8
set border linecolor rgb '#444444'
set title 'Decay of the score with distance'
set xlabel 'distance (positions)'
unset logscale x
set format x '%g'
set xrange [*:*]
set ylabel 'S: score of q and k, length 1 in each pair'
unset logscale y
set format y '%g'
set yrange [*:*]
set size noratio
set key below left Left reverse vertical maxrows 1 samplen 2 height 0.6 width 2
set autoscale xfix
set xtics autofreq
set ytics autofreq
set grid linetype 1 linecolor rgb '#dddddd'
$curve0 << EOD
0 2
1 1.540252306284805
2 0.5836531701194354
3 0.009557537148542058
EOD
plot $curve0 using 1:2 with lines linewidth 1.5 linecolor rgb '#0072b2' dashtype 1 title 'base 10000, unscaled'
unset label
unset output
