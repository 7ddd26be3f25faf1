SELECT x FROM postions
