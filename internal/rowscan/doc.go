// Package rowscan reads rows of a user's table with the user's scan function, for the sources that the nested modules of the databases make of
// such tables. A row may have only the columns of its key, because it was deleted, or because its other columns cannot be read.
//
// # Guarantees
//
//  1. A panic of a scan function is an error, because the function may not expect a row with only a key.
//  2. An object of a key counts as read if it is not the zero value, whatever error the scan function returns with it.
//  3. A [Part] shows some columns of a row as a row of their own. It leaves the destinations of columns without a value as they are.
package rowscan
