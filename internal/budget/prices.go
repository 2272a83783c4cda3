package budget

// The prices are a least-squares fit, with no price below zero, of the automaton
// to the real counts of cl100k_base and o200k_base over about 4 MB in pieces of
// 1.5 KB: Go, Python, C, JavaScript and shell sources, English documentation,
// JSON, listings and logs, Chinese and a little of a dozen other languages,
// each piece weighted by its relative error. Between 97 and 99 % of the pieces
// come out within 15 %. Single prices mean little (what one transition saves
// another pays); TestEstimatorIsClose measures the whole.
//
// Columns of first: the run begins after a line's end, a blank, blanks, a word,
// capitals, digits, one mark, marks, a longer character. Columns of next: the
// run is 1, 2 … bytes long already. Columns of char: alone, after its like.

var cl100kPrices = prices{
	first: [control][kinds]uint16{
		lower:   {931, 85, 0, 800, 2736, 493, 458, 798, 1611},
		upper:   {1050, 218, 985, 775, 800, 1501, 451, 320, 1397},
		digit:   {331, 1523, 1888, 1677, 1336, 800, 1291, 132, 741},
		blank:   {432, 100, 100, 684, 0, 642, 871, 262, 732},
		newline: {60, 1782, 749, 1251, 475, 1789, 609, 0, 1078},
		quote:   {1184, 805, 723, 540, 97, 787, 800, 800, 600},
		bracket: {813, 617, 883, 427, 1048, 1283, 800, 800, 2275},
		mark:    {304, 874, 557, 832, 386, 481, 800, 800, 1493},
	},
	next: [control][longWord]uint16{
		lower:   {67, 0, 0, 233, 0, 237, 0, 16, 0, 0, 169, 0, 0, 441},
		upper:   {0, 60, 695, 152},
		digit:   {0, 8, 1013},
		blank:   {826, 0, 0},
		quote:   {0, 535, 0, 0},
		bracket: {0, 553, 0, 644},
		mark:    {522, 515, 370, 37},
	},
	char: [following][2]uint16{
		latin:    {1007, 1156},
		near:     {1500, 176},
		southern: {1662, 873},
		sign:     {1217, 366},
		kana:     {1382, 877},
		han:      {1107, 1107},
		hangul:   {1839, 529},
		wide:     {1788, 1199},
		astral:   {1447, 1671},
	},
	junk: 1007,
}

var o200kPrices = prices{
	first: [control][kinds]uint16{
		lower:   {1086, 150, 122, 800, 2268, 567, 521, 866, 720},
		upper:   {1077, 243, 1073, 840, 800, 1414, 559, 294, 1287},
		digit:   {382, 1500, 2070, 1591, 1266, 800, 1286, 152, 801},
		blank:   {480, 100, 100, 572, 0, 628, 867, 230, 184},
		newline: {60, 1383, 764, 1248, 676, 1769, 509, 28, 1887},
		quote:   {1090, 814, 876, 473, 633, 766, 800, 800, 1690},
		bracket: {608, 547, 828, 474, 1115, 1261, 800, 800, 1286},
		mark:    {264, 868, 639, 757, 384, 501, 800, 800, 957},
	},
	next: [control][longWord]uint16{
		lower:   {88, 0, 0, 268, 0, 176, 0, 137, 0, 0, 0, 0, 0, 430},
		upper:   {0, 0, 743, 150},
		digit:   {0, 53, 986},
		blank:   {724, 0, 0},
		quote:   {0, 473, 0, 0},
		bracket: {0, 711, 0, 690},
		mark:    {524, 528, 628, 46},
	},
	char: [following][2]uint16{
		latin:    {803, 1328},
		near:     {800, 100},
		southern: {154, 420},
		sign:     {1261, 379},
		kana:     {800, 885},
		han:      {729, 729},
		hangul:   {1000, 490},
		wide:     {1074, 1196},
		astral:   {1908, 1927},
	},
	junk: 1007,
}
